"""Where the results of a run go: into a folder in which nothing else is lost, or to the caller."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.files import state_folder
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
    from chaffinch.runs.asked import Collection
    from chaffinch.runs.listener import Listener

PLAN = "survey.plan.json"
RELEASE = "release.json"
RELEASES = ("release.html", RELEASE, "release.csv")


class Results(Protocol):
    """Where the results of one run go, and what is there now."""

    @property
    def folder(self) -> Path:
        """Return the folder in which the release is put."""
        ...

    @property
    def inputs(self) -> Sequence[str | Path]:
        """Return the inputs of the run, which must not be replaced."""
        ...

    @property
    def targets(self) -> list[Path]:
        """Return the files that are staged before the payment."""
        ...

    @property
    def files(self) -> list[Path]:
        """Return the files that the caller has in the end."""
        ...

    @property
    def standing(self) -> str | None:
        """Return the batch of the release that is there now, if there is one."""
        ...

    @property
    def waits(self) -> bool:
        """Return whether staged files are there, which may be paid for."""
        ...

    def prepare(self, asked: Collection) -> None:
        """Remove leftovers of a killed run; refuse a place where nothing can be written."""
        ...

    def check(self, plan: Plan, round: int | None) -> None:  # noqa: A002
        """Refuse to replace anything but an earlier release of this round of this plan."""
        ...

    def refuse_standing(self) -> None:
        """Refuse to put another release in the place of one, unless that is wanted."""
        ...

    def of_request(self, request: str) -> Results:
        """Return the place for what was asked for, of which this is a name."""
        ...

    def find_plan(self, asked: Collection, listener: Listener, *, anyway: bool) -> Plan:
        """Return the plan of a collection: the one that is kept there, or a new one."""
        ...

    def keep_plan(self, asked: Collection, plan: Plan) -> None:
        """Save a new plan where the same survey finds it, even if its first run fails."""
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

    def paid_release(self, *, finished: bool) -> Release | None:
        """Return a release that was paid for by a call that was interrupted, if there is one.

        ``finished`` says whether staged files were put in place just now.
        """
        ...

    def of_group(self, name: str) -> Results:
        """Return the place for the results of one public group."""
        ...


@dataclass(frozen=True)
class ReturnedOnly:
    """No files for the caller: the release is returned, and kept in the state folder until then."""

    request: str = ""
    """The name of what was asked for; empty while it is unknown, or if it cannot be recognized."""
    inputs: Sequence[str | Path] = ()
    standing: str | None = None

    @property
    def folder(self) -> Path:
        """Return the folder in which the release is kept until it is returned."""
        return _kept() / self.request

    @property
    def targets(self) -> list[Path]:
        """Return the file in which the same call finds its release."""
        return [self.folder / RELEASE] if self.request else []

    @property
    def files(self) -> list[Path]:
        """Return no files."""
        return []

    @property
    def waits(self) -> bool:
        """Return whether some call has not returned its release, which may be this one."""
        return any(_kept().glob("*/*"))

    def prepare(self, asked: Collection) -> None:
        """Do nothing."""

    def check(self, plan: Plan, round: int | None) -> None:  # noqa: A002
        """Do nothing: nothing is replaced."""

    def refuse_standing(self) -> None:
        """Do nothing: nothing is replaced."""

    def of_request(self, request: str) -> ReturnedOnly:
        """Return the place for what was asked for."""
        return replace(self, request=request)

    def find_plan(self, asked: Collection, listener: Listener, *, anyway: bool) -> Plan:
        """Return a new plan."""
        return asked.make_plan(listener, anyway=anyway)

    def keep_plan(self, asked: Collection, plan: Plan) -> None:
        """Do nothing: a new plan is not saved."""

    def keeps_other(self, plan: Plan) -> bool:
        """Return that nothing is there."""
        del plan
        return False

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yield a private temporary folder, and keep the release until all else is done.

        Leftovers of a killed run go with the next one.
        """
        with self._keeping() if self.request else nullcontext(), ExitStack() as stack:
            try:
                staging = stack.enter_context(staging_folder(Path(tempfile.gettempdir())))
            except OSError as error:
                raise storage_fault("temporary folder", error, verb="write") from None
            yield staging

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        remove_leftovers(state_folder())
        # The same call in another process waits for this one: they would pay for one place.
        with alone_in(state_folder(), f"run-{self.request}"):
            try:
                _kept().mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise storage_fault("state folder", error, verb="write") from None
            try:
                yield
                try:
                    for target in self.targets:
                        target.unlink(missing_ok=True)
                except OSError as error:
                    raise storage_fault("state folder", error, verb="write") from None
            finally:
                with suppress(OSError):
                    self.folder.rmdir()  # unless something is kept

    def writers(self, plan: Plan, release: Release) -> dict[Path, Writer]:
        """Return the writer of what is kept."""
        del plan
        return dict.fromkeys(self.targets, release.save)

    def paid_release(self, *, finished: bool) -> Release | None:
        """Return the release that the same call has paid for, and did not return."""
        from chaffinch.release.surveys import load_release

        del finished  # a file that has its name already was paid for, too
        found = [load_release(target) for target in self.targets if target.exists()]
        return found[0] if found else None

    def of_group(self, name: str) -> ReturnedOnly:
        """Return the same: no files."""
        del name
        return self


def _kept() -> Path:
    return state_folder() / "unreturned"


@dataclass(frozen=True)
class ResultsFolder:
    """A folder with a plan and its release."""

    folder: Path
    inputs: Sequence[str | Path] = ()
    replaces: bool = False
    """Whether a release that is there, of whatever plan and round, may be replaced."""

    @property
    def targets(self) -> list[Path]:
        """Return the files that are written."""
        return [self.folder / name for name in (PLAN, *RELEASES)]

    @property
    def files(self) -> list[Path]:
        """Return the files that the caller has in the end."""
        return self.targets

    @property
    def standing(self) -> str | None:
        """Return the batch of the release that is there now, if there is one."""
        batch = _told_in(self.folder / RELEASE, "batch")
        return batch if isinstance(batch, str) else None

    @property
    def waits(self) -> bool:
        """Return whether staged files are there, which may be paid for."""
        return bool(staged_folders(self.folder, None, refuse_strangers=False))

    def prepare(self, asked: Collection) -> None:
        """Remove leftovers of a killed run; refuse a place where nothing can be written.

        What will be refused for certain after planning is refused here.
        """
        remove_leftovers(self.folder)  # here, because what comes may be refused
        require_folder(self.folder)
        self._refuse_other_files()
        kept = None if self.replaces else _plan_in(self.folder / PLAN)
        if kept is not None and not asked.may_have(kept):
            raise _other_results(PLAN)

    def check(self, plan: Plan, round: int | None) -> None:  # noqa: A002
        """Refuse to replace anything but an earlier release of this round of this plan."""
        self._refuse_other_files()
        if self.replaces:
            return
        name = self._file_of_other_plan(plan)
        if name is not None:
            raise _other_results(name)
        standing = _told_in(self.folder / RELEASE, "round")
        if standing is not None and standing != round:
            raise _other_results(RELEASE, f"round {standing}", of="round")

    def refuse_standing(self) -> None:
        """Refuse to put another release in the place of one, which may be published."""
        if self.standing is not None and not self.replaces:
            raise _refused(
                "a folder without a release, as the one that is there may be published",
                f"one with a {RELEASE} of the same plan and round",
            )

    def of_request(self, request: str) -> ResultsFolder:
        """Return the same: whatever is asked for, its results go here."""
        del request
        return self

    def find_plan(self, asked: Collection, listener: Listener, *, anyway: bool) -> Plan:
        """Return the plan of a collection: the one that is kept here, or a new one."""
        kept = asked.kept_plan(self.folder, listener, anyway=anyway)
        return asked.make_plan(listener, anyway=anyway) if kept is None else kept

    def keep_plan(self, asked: Collection, plan: Plan) -> None:
        """Save a new plan where the same survey finds it, even if its first run fails."""
        self.folder.mkdir(parents=True, exist_ok=True)
        asked.keep_plan(self.folder, plan)

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

    def paid_release(self, *, finished: bool) -> Release | None:
        """Return the release of an interrupted run whose files were put in place just now."""
        from chaffinch.release.surveys import load_release

        return load_release(self.folder / RELEASE) if finished else None

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
        for name, key in ((PLAN, "id"), (RELEASE, "plan")):
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


def _told_in(path: Path, key: str) -> object:
    """Return what a document tells under a key, or None where it tells nothing."""
    try:
        document = _document_in(path)
    except FileNotFoundError:
        return None
    return document.get(key) if isinstance(document, dict) else None


def _other_results(name: str, such: str = "", *, of: str = "plan") -> InvalidInput:
    got = f"one with the {name} of {such}" if such else f"one with such a {name}"
    return _refused(f"a folder without results of another {of}", got)


def _refused(rule: str, got: str) -> InvalidInput:
    hint = "name another folder, or add --replace (replace=True) to overwrite what is there"
    return InvalidInput("output", rule, Unquoted(got), hint=hint)


def _holds_plan(path: Path, plan: Plan) -> bool:
    found = _plan_in(path)
    return found is not None and found.id == plan.id


def _plan_in(path: Path) -> Plan | None:
    from chaffinch.plans.plan import load_plan  # who only asks for the names needs no plans

    try:
        return load_plan(path)
    except ChaffinchError:
        return None
