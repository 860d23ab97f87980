"""The warning that offline rules stand in for models that are not configured."""

import logging
from threading import Event
from typing import Final, get_args

from mnemic.state.checking import PREFIX
from mnemic.state.model_settings import OFFLINE, Tier
from mnemic.state.settings import Settings

_LOG = logging.getLogger("mnemic")
#: Set once this process has reported it; a command sets it first, since commands print their models.
reported: Final = Event()


def warn_of_missing_models(settings: Settings) -> None:
    """Log a warning if a tier has no model, once per process; the name `offline` counts as a choice of the rules."""
    missing: list[str] = []
    for tier in get_args(Tier):
        name = f"{tier}_model"
        if getattr(settings, name) is None and settings.model_for(tier) == OFFLINE:
            missing.append(f"{PREFIX}{name.upper()}")
    if not missing or reported.is_set():
        return
    reported.set()
    _LOG.warning(
        "%s: not set, and there is no MNEMIC_API_KEY, so offline rules work in place of a model. They form facts from "
        "few sentences; formed messages can be found all the same. Set the key or a model, or the value `offline` to "
        "keep the rules",
        ", ".join(missing),
    )
