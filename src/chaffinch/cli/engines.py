"""Options of a verb that an engine works for: this machine, or a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.protected import refuse_to_overwrite
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.engines import Engine


@Parameter(name="*")
@dataclass(frozen=True)
class EngineOptions:
    """Who does the work."""

    engine: str = "local"
    """local: this machine; spark: a cluster. A cluster reads and writes files that all of its
    machines see, or addresses such as s3://bucket/folder; it writes a batch as a folder."""
    master: str | None = None
    """The master of the Spark cluster, such as spark://host:7077; by default the one in Spark's own
    configuration, or the cores of this machine."""
    patience: float = 120.0
    """How many seconds to wait for a free worker of the cluster."""

    @property
    def on_cluster(self) -> bool:
        """Return whether a cluster does the work."""
        from chaffinch.engines import ENGINES
        from chaffinch.errors import checks

        if self.master is not None and self.engine != "spark":
            raise InvalidInput("master", "given for --engine spark only", self.master)
        return checks.choice("engine", self.engine, tuple(ENGINES)) == "spark"

    def open(self, tell: Callable[[str], None]) -> Engine:
        """Return the engine; ``tell`` is told what it waits for before it works."""
        from chaffinch.engines import engine

        if not self.on_cluster:
            return engine()
        # When it is stopped, py4j would tell the root logger of it, with all its calls.
        logging.getLogger().addHandler(logging.NullHandler())
        return engine("spark", master=self.master, patience=self.patience, tell=tell)

    def message_target(
        self,
        name: str | None,
        *,
        as_json: bool,
        inputs: Sequence[str | Path | None],
        replaceable: Kind | None = None,
    ) -> str:
        """Return where messages go; a cluster fills a folder."""
        if not self.on_cluster:
            return paths.message_target(
                name, as_json=as_json, inputs=inputs, replaceable=replaceable
            )
        if name is None or paths.is_pipe(Path(name)):
            raise InvalidInput(
                "output",
                "a folder with --engine spark",
                Unquoted("none"),
                hint="add -o FOLDER",
            )
        given = [one for one in inputs if one is not None]
        refuse_to_overwrite(name, inputs=given, replaceable=replaceable)
        return name
