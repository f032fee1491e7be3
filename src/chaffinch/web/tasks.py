"""What the worker can be asked for, by name."""

from __future__ import annotations

from chaffinch.web import plan_panel, reach_panel, run_panel, try_panel

TASKS = {**plan_panel.TASKS, **try_panel.TASKS, **run_panel.TASKS, **reach_panel.TASKS}
