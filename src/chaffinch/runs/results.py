"""Where the results of a run go: into a folder in which nothing else is lost, or into no files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.filled_folders import fill_folder, require_folder
from chaffinch.disk.leftovers import alone_in, remove_leftovers, staging_folder
from chaffinch.disk.protected import refuse_all_but, refuse_to_overwrite
from chaffinch.disk.staged import staged_folders
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import ChaffinchError, InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.disk.staged import Writer
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release

PLAN = "survey.plan.json"
RELEASES = ("release.html", "release.json", "release.csv")


class Results(Protocol):
    """Where the results of one run go, and what is there now."""

    @property
    def folder(self) -> Path | None:
        """Return the folder, if there is one."""
        ...

    @property
    def inputs(self) -> Sequence[str | Path]:
        """Return the inputs of the run, which must not be replaced."""
        ...

    @property
    def targets(self) -> list[Path]:
        """Return the files that are written."""
        ...

    @property
    def standing(self) -> str | None:
        """Return the batch of the release that is there now, if there is one."""
        ...

    @property
    def waits(self) -> bool:
        """Return whether staged files are there, which may be paid for."""
        ...

    def prepare(self) -> None:
        """Remove leftovers of a killed run; refuse a place where nothing can be written."""
        ...

    def check(self, plan: Plan) -> None:
        """Refuse to replace anything but an earlier release of this plan."""
        ...

    def keeps_other(self, plan: Plan) -> bool:
        """Return whether results of another plan are there."""
        ...

    def filling(self) -> AbstractContextManager[Path]:
        """Yield a folder for unfinished files, and lock the place against other runs."""
        ...

    def writers(self, plan: Plan, release: Release) -> dict[Path, Writer]:
        """Return the writers of all files; a plan that is there already stays as it is."""
        ...

    def of_group(self, name: str) -> Results:
        """Return the place for the results of one public group."""
        ...


class NoFiles:
    """No files: the release is returned, and only the record of releases is written."""

    folder: Path | None = None
    inputs: Sequence[str | Path] = ()
    standing: str | None = None
    waits = False

    @property
    def targets(self) -> list[Path]:
        """Return no files."""
        return []

    def prepare(self) -> None:
        """Do nothing."""

    def check(self, plan: Plan) -> None:
        """Do nothing: nothing is replaced."""

    def keeps_other(self, plan: Plan) -> bool:
        """Return that nothing is there."""
        del plan
        return False

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yield a private temporary folder; leftovers of a killed run go with the next one."""
        with ExitStack() as stack:
            try:
                staging = stack.enter_context(staging_folder(Path(tempfile.gettempdir())))
            except OSError as error:
                raise storage_fault("temporary folder", error, verb="write") from None
            yield staging

    def writers(self, plan: Plan, release: Release) -> dict[Path, Writer]:
        """Return no writers."""
        del plan, release
        return {}

    def of_group(self, name: str) -> NoFiles:
        """Return the same: no files."""
        del name
        return self


@dataclass(frozen=True)
class ResultsFolder:
    """A folder with a plan and its release."""

    folder: Path
    inputs: Sequence[str | Path] = ()
    replaces: bool = False
    """Whether the results of another plan may be replaced."""

    @property
    def targets(self) -> list[Path]:
        """Return the files that are written."""
        return [self.folder / name for name in (PLAN, *RELEASES)]

    @property
    def standing(self) -> str | None:
        """Return the batch of the release that is there now, if there is one."""
        return _batch_of_release(self.folder / "release.json")

    @property
    def waits(self) -> bool:
        """Return whether staged files are there, which may be paid for."""
        return bool(staged_folders(self.folder, None, refuse_strangers=False))

    def prepare(self) -> None:
        """Remove leftovers of a killed run; refuse a place where nothing can be written."""
        remove_leftovers(self.folder)  # here, because what comes may be refused
        require_folder(self.folder)
        self._refuse_other_files()

    def check(self, plan: Plan) -> None:
        """Refuse to replace anything but an earlier release of this plan."""
        self._refuse_other_files()
        name = None if self.replaces else self._file_of_other_plan(plan)
        if name is not None:
            raise InvalidInput(
                "output",
                "a folder without results of another plan",
                Unquoted(f"one with such a {name}"),
                hint="name another folder, or add --replace (replace=True) to overwrite what is "
                "there",
            )

    def keeps_other(self, plan: Plan) -> bool:
        """Return whether results of another plan are there."""
        return self._file_of_other_plan(plan) is not None

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yield a folder for unfinished files, and lock the place against other runs."""
        with fill_folder(self.folder) as staging, self.alone():
            yield staging

    def alone(self) -> AbstractContextManager[None]:
        """Refuse to fill a folder, or to finish a release there, while another run does.

        Both would pay, and one release would be lost.
        """
        return alone_in(self.folder, "run", patience=0.0)

    def writers(self, plan: Plan, release: Release) -> dict[Path, Writer]:
        """Return the writers of all files; a plan that is there already stays as it is."""
        files: dict[Path, Callable[[Path], object]] = {
            self.folder / name: release.save for name in RELEASES
        }
        if not _holds_plan(self.folder / PLAN, plan):
            files[self.folder / PLAN] = plan.save
        return files

    def of_group(self, name: str) -> ResultsFolder:
        """Return the place for the results of one public group."""
        return replace(self, folder=self.folder / name)

    def _refuse_other_files(self) -> None:
        for name, kind in ((PLAN, Kind.PLAN), *((name, Kind.RELEASE) for name in RELEASES)):
            # A plan that is there may be the one that was named.
            given = self.inputs if kind is Kind.RELEASE else ()
            refuse_to_overwrite(self.folder / name, inputs=given, replaceable=kind)
            refuse_all_but(kind, self.folder / name)

    def _file_of_other_plan(self, plan: Plan) -> str | None:
        for name, key in ((PLAN, "id"), ("release.json", "plan")):
            try:
                document = _document_in(self.folder / name)
            except FileNotFoundError:
                continue
            if not isinstance(document, dict) or document.get(key) != plan.id:
                return name
        return None


def _document_in(path: Path) -> Any:
    """Return what a JSON file holds: None if it is damaged, FileNotFoundError if there is none."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError from None
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None
    except (ValueError, RecursionError):
        return None


def _batch_of_release(path: Path) -> str | None:
    try:
        document = _document_in(path)
    except FileNotFoundError:
        return None
    found = document.get("batch") if isinstance(document, dict) else None
    return found if isinstance(found, str) else None


def _holds_plan(path: Path, plan: Plan) -> bool:
    from chaffinch.plans.plan import load_plan  # who only asks for the names needs no plans

    try:
        return load_plan(path).id == plan.id
    except ChaffinchError:
        return False
