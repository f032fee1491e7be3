"""What the worker can be asked for, by name."""

from __future__ import annotations

from collections.abc import Mapping

from chaffinch.web import plan_panel, reach_panel, run_panel, try_panel
from chaffinch.web.worker import Task

TASKS: Mapping[str, Task] = {
    **plan_panel.TASKS,
    **try_panel.TASKS,
    **run_panel.TASKS,
    **reach_panel.TASKS,
}
