"""All settings of Mnemic by name and unit, read once when Mnemic opens. Arguments precede the environment.

An agent may override the settings that are marked `Own` (`agents.settings`).
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import SettingsConfigDict

from mnemic.state.checking import (
    OWN,
    PREFIX,
    Key,
    Own,
    PositiveInt,
    Seconds,
    field_name,
    named_setting,
    nearest,
    typed_errors,
)
from mnemic.state.errors import ConfigurationError
from mnemic.state.identity import Scope
from mnemic.state.kinds import Extraction
from mnemic.state.model_settings import OFFLINE, ModelSettings
from mnemic.state.query import MAX_BUDGET_TOKENS
from mnemic.state.schedules import CronLine
from mnemic.state.times import ZoneName

#: Variables with the prefix that are no settings: the directory of Postgres' programs, and the data of benchmarks.
_OTHER_VARIABLES = ("MNEMIC_PG_BINDIR", "MNEMIC_DATA")
_ALIASES = ("OPENAI_API_KEY",)


class Settings(ModelSettings):
    """All settings, from arguments and from the environment with the prefix `MNEMIC_`.

    Raises:
        ConfigurationError: if a setting does not fit.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
        defer_build=True,
    )

    # -- the database
    #: DSN of the service's role `mnemic_app`. None for the embedded server.
    database_url: SecretStr | None = None
    #: DSN of the administrators' role `mnemic_admin`, for `Administration` only. None for the embedded server.
    admin_url: SecretStr | None = None
    #: DSN of a role that may create roles, the extension and the schema; used by `mnemic db migrate` only.
    migration_url: SecretStr | None = None
    #: Data directory of the embedded server. None for the platform's data directory.
    data_dir: Path | None = None
    pool_size: PositiveInt = 10
    pool_timeout_seconds: Seconds = 10
    #: `transaction`: a pooler assigns server connections by transaction, so no statement is prepared.
    #: `none`: each connection keeps its server connection. `auto`: a pooler is detected.
    pooler: Literal["auto", "none", "transaction"] = "auto"
    #: Limits for one statement of a write, for one of a recall and the vector of its question, and for a row lock.
    statement_timeout_seconds: Seconds = 30
    recall_timeout_seconds: Seconds = 2
    lock_timeout_seconds: Seconds = 1

    # -- formation
    #: Whether facts are formed and found by searches.
    rag: Own[bool] = True
    #: Whether reflections and consolidations are formed and put into every context.
    always_in_context: Own[bool] = True
    #: Messages that stay searchable after formation. None for `all` with the offline rules, else `sources`.
    keep_messages: Own[Literal["sources", "all", "none"] | None] = None
    #: `sequential`: facts, decisions and reflections in turn. `single`: observations in one call.
    extraction: Own[Extraction] = "sequential"
    #: `batch`: after enough messages. `per_turn`: after every turn of a user, within the limits below.
    formation_mode: Own[Literal["batch", "per_turn"]] = "batch"
    formation_min_messages: Own[PositiveInt] = 4
    formation_messages: Own[PositiveInt] = 45
    formation_tokens: Own[PositiveInt] = 1000
    session_cold_minutes: Own[PositiveInt] = 10
    #: Messages of one run. At 12 facts per 10 messages, 40 messages reach the limit of a run.
    formation_batch_messages: PositiveInt = 50
    #: Tokens of messages in one run, so that prompt and embeddings stay within the limits of endpoints.
    formation_batch_tokens: PositiveInt = 16_000
    #: A fact is one statement, so that each can change by itself. A careful reader keeps up to 31 facts of 31 messages.
    facts_per_ten_messages: PositiveInt = 12
    facts_per_run: PositiveInt = 48
    #: Facts that contradictions may close in one run, for each typed message; at least 3 per run. One of the example
    #: conversations closes 12 facts with 18 such messages.
    closings_per_message: Annotated[float, Field(gt=0)] = 1.0
    neighbours: PositiveInt = 5
    #: Maximum number of stored facts for the decision on a new one, and their tokens in one call.
    candidates_per_fact: PositiveInt = 12
    decision_tokens: PositiveInt = 1600
    #: Minimum cosine similarity of a relation to a neighbour. None for the begin of the embedder's fallback band: 0.55
    #: for models of OpenAI, and 0.67 for minilm, with which three of four unrelated pairs reach 0.55.
    link_min: Annotated[float, Field(gt=0, le=1)] | None = None
    #: Characters of a turn above which several facts are extracted, and their maximum number; a shorter turn has one.
    multi_fact_chars: PositiveInt = 600
    multi_fact_candidates: PositiveInt = 5
    writes_per_turn: PositiveInt = 3
    #: After so many writes a user's sessions are formed in batches until midnight (UTC).
    writes_per_user_and_day: PositiveInt = 20

    # -- time
    #: Time zone of identities without one, for times without an offset and for the current day.
    timezone: ZoneName = "UTC"

    # -- sharing
    #: Users whose sentences may be shared with all users: those with `teaches_agent`, every user, or none.
    share_with_agent: Own[Literal["taught", "open", "off"]] = "taught"
    #: Whether sentences of a member may be shared with the group.
    share_with_group: Own[bool] = True

    # -- explicit writes
    #: Maximum number of forgets that an agent may start per session and day; each can be undone.
    forgets_per_session_and_day: PositiveInt = 10
    #: Maximum number of memories that a model may remember per session and day; calls of the host have no limit.
    remembers_per_session_and_day: PositiveInt = 30

    # -- retention and audit
    #: Days after which a formed message that is not kept loses its content, if it is covered. 0 for at once.
    forget_after_days: Annotated[int, Field(ge=0, le=36_500)] = 7
    #: Days after which a purge erases expired memories. None to keep them soft-deleted.
    retention_purge_after_days: PositiveInt | None = None
    #: Secret that signs the anchors of the audit; keep it from everyone with access to the database.
    anchor_key: Key | None = None

    # -- traces
    #: Whether tracers such as LangSmith's record messages and memories, or only names, times and token counts.
    trace_contents: bool = False

    # -- the server
    #: Secret that signs the server's bearer tokens (`mnemic token`). None for development without authentication.
    server_key: Key | None = None

    # -- failures
    #: Duration of a lease, after which another run continues the work of a killed one. A usual run takes a minute.
    lease_seconds: PositiveInt = 600
    #: Unusable answers before a message is quarantined; the last attempt has this message alone.
    max_attempts: PositiveInt = 5
    #: Pause after a failure; four times as long after each further one, up to the maximum.
    retry_seconds: PositiveInt = 60
    max_retry_seconds: PositiveInt = 3600

    # -- consolidation
    agent_threshold: Own[PositiveInt] = 8
    group_threshold: Own[PositiveInt] = 8
    user_threshold: Own[PositiveInt] = 4
    session_threshold: Own[PositiveInt] = 4
    agent_word_limit: Own[PositiveInt] = 1000
    group_word_limit: Own[PositiveInt] = 500
    user_word_limit: Own[PositiveInt] = 400
    session_word_limit: Own[PositiveInt] = 400
    #: Maximum number of reflections in one consolidation, oldest first; it limits the length of the prompt.
    consolidation_reflections: PositiveInt = 50
    #: Minimum share of the sources' details in a new text; below it the text is refused, and the reflections stay in
    #: context. The lowest share among 13 texts of a careful reader (benchmarks/corpus) was 0.54.
    consolidation_min_kept_share: Annotated[float, Field(ge=0, le=1)] = 0.3

    # -- refinement
    #: Tokens of a context memory above which a refinement is due, and the target of the refinement.
    refinement_budget_tokens: Own[PositiveInt] = 8000
    refinement_target_tokens: Own[PositiveInt] = 5000
    #: Language of memories, such as `English`. None for the language of the conversation.
    language: Own[Annotated[str, Field(min_length=1, max_length=60)] | None] = None
    #: Description of the agent, for the supervisor's answers and for refinements in the agent's voice.
    persona: Own[Annotated[str, Field(min_length=1, max_length=4000)] | None] = None
    #: Limits of a session: turns of the agent, tokens of the model's calls, and minutes since the start.
    refinement_steps: PositiveInt = 60
    refinement_model_tokens: PositiveInt = 1_000_000
    refinement_minutes: PositiveInt = 60
    #: Tokens of memories in one batch.
    refinement_batch_tokens: PositiveInt = 12_000
    #: Share of the memories that a session may remove without a merge, and share of the target's tokens that it may
    #: protect: a misled session can neither empty a memory nor freeze it.
    refinement_removed_percent: Annotated[int, Field(ge=1, le=100)] = 25
    refinement_protected_percent: Annotated[int, Field(ge=1, le=100)] = 25

    # -- the background
    #: Whether `Mnemic.open` and LangGraph Server do background work; switch it off if `mnemic worker` runs.
    background: bool = True
    #: Maximum number of jobs at once in one process; providers limit concurrent requests.
    jobs_at_once: PositiveInt = 4
    #: Tokens of models that the agents of one tenant may use in a day (UTC). After that, background work with models
    #: waits for the next day. None for no limit.
    tenant_daily_tokens: PositiveInt | None = None
    #: Days after which events of operational tracking are deleted.
    events_days: PositiveInt = 30
    #: Cron line of the weekly refinement, with an optional time zone; or `off`.
    refinement_schedule: Own[CronLine] = "0 4 * * sun"
    #: Whether memories of a member are propagated to the group of the session, and those of two groups or two strangers
    #: to all users.
    propagation: Own[bool] = True
    #: Whether the fast model draws insights about active users, in one call per user and day. Only the user reads them,
    #: and a search counts them half.
    insights: Own[bool] = True

    # -- near duplicates
    #: `all`: all pairs from the embedder's `fallback` band on, since no model compared facts of one conversation, or
    #: explicitly remembered facts, before. `fallback`: only pairs below the `check` band.
    pair_band: Literal["all", "fallback"] = "all"
    #: Pairs that a model judges per scope key and day (UTC), and in one prompt: each costs about 60 tokens.
    pairs_per_user_and_day: PositiveInt = 50
    pairs_per_prompt: Annotated[int, Field(ge=1, le=10)] = 8
    #: Facts that are compared with the others: changed within these hours, of at least this importance, or among this
    #: percentage of the most recalled facts.
    pair_changed_hours: PositiveInt = 72
    pair_importance: Annotated[int, Field(ge=1, le=5)] = 3
    pair_use_percent: Annotated[int, Field(ge=1, le=100)] = 10
    #: Facts of one scope key that are compared in a run. Changed facts come first; the others take turns by day.
    pair_candidates: PositiveInt = 200
    #: Days since the last change after which a fact is no longer compared.
    pair_updated_days: PositiveInt = 90
    #: Days until a judged pair may be judged again; a change of one of its facts ends them.
    pair_rest_days: PositiveInt = 14

    # -- maintenance
    #: Cron line of the daily maintenance, with an optional time zone; or `off`. Tenants are spread over two hours.
    maintenance_schedule: Own[CronLine] = "0 3 * * *"
    #: Whether the scheduled maintenance is a dry run that changes nothing.
    maintenance_dry_run: Own[bool] = False
    #: Days without use after which a fact, an episode or an insight is soft-deleted, if its importance is below
    #: `ttl_importance` and it is neither pinned nor protected.
    ttl_days: Own[Annotated[int, Field(ge=1, le=36_500)]] = 60
    ttl_importance: Own[Annotated[int, Field(ge=1, le=6)]] = 3
    #: Days without a new checkpoint after which a thread keeps only its latest one. None to keep all of them.
    thread_prune_days: Own[Annotated[int, Field(ge=1, le=36_500)] | None] = None

    # -- recall
    #: File of categories and allowlists, in the form of `memory/runtime/categories.yaml`. None for that file.
    categories_file: Path | None = None
    #: File of phrases that request a recall; its languages replace those of the default `memory/runtime/requests.yaml`.
    recall_requests_file: Path | None = None
    #: Tokens of the part that is always in context. Facts use what the other texts leave of them.
    standing_tokens: PositiveInt = 8000
    recall_budget_tokens: Own[Annotated[int, Field(ge=1, le=MAX_BUDGET_TOKENS)]] = 1000
    #: Maximum number of memories of an automatic recall.
    recall_limit: Own[Annotated[int, Field(ge=1, le=100)]] = 5
    fusion: Literal["weighted", "rrf"] = "weighted"
    rrf_k: PositiveInt = 60
    #: Rows of each branch of a search before fusion.
    search_candidates: PositiveInt = 100

    def __init__(self, **settings: Any) -> None:
        self._require_known(settings)
        variables = set(type(self).model_fields) - set(settings)
        with typed_errors(variables):
            super().__init__(**settings)
        self.require_target_within_budget(variables)

    @classmethod
    def _require_known(cls, arguments: Collection[str]) -> None:
        """Refuse an argument or a variable of the environment that is no setting.

        Raises:
            ConfigurationError: if there is one; the message names the nearest setting.
        """
        fields = cls.model_fields.keys()
        variables = {f"{PREFIX}{name.upper()}" for name in fields}
        for name in arguments:
            if name not in fields and name not in variables and name not in _ALIASES:
                raise ConfigurationError(f"there is no setting {field_name(name)}{nearest(name, fields)}")
        for name in os.environ:
            if name.upper().startswith(PREFIX) and name.upper() not in variables.union(_OTHER_VARIABLES):
                near = nearest(name.upper(), variables, prefix=PREFIX)
                raise ConfigurationError(f"the environment or .env sets {field_name(name)}, which is no setting{near}")

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_passed_on(cls, value: object) -> object:
        if isinstance(value, str) and not str.isprintable("".join(str.split(value))):
            raise ValueError("has control characters; remove them")
        return value

    @field_validator("extraction")
    @classmethod
    def _forms_what_is_switched_on(cls, extraction: str, info: ValidationInfo) -> str:
        if extraction == "single" and info.data.get("always_in_context") is False:
            raise ValueError("single extracts only reflections, so it needs always_in_context on")
        return extraction

    @property
    def kept_messages(self) -> Literal["sources", "all", "none"]:
        """Messages that stay searchable: all with the offline rules, since these miss most facts."""
        if self.keep_messages:
            return self.keep_messages
        if self.model_for("fast") == self.model_for("slow") == OFFLINE:
            return "all"
        return "sources"

    @property
    def refinement_target(self) -> int:
        """Target tokens of a refinement: at most the budget, which may have been set later."""
        return min(self.refinement_target_tokens, self.refinement_budget_tokens)

    def require_target_within_budget(self, variables: Collection[str] = ()) -> None:
        """Refuse a target above the budget when one of the two is set; a stored value that no longer fits is accepted.

        Args:
            variables: settings that came from the environment; the error names their variables.

        Raises:
            ConfigurationError: if the target is more than the budget.
        """
        target, budget = self.refinement_target_tokens, self.refinement_budget_tokens
        if target > budget:
            raise ConfigurationError(
                f"settings do not fit: {named_setting('refinement_target_tokens', variables)}: {target:,} is more than"
                f" refinement_budget_tokens, which is {budget:,}: set both"
            )

    def of_scope(self, scope: Scope, name: Literal["threshold", "word_limit"]) -> int:
        """Return the threshold or the word limit of consolidations of a scope."""
        value: int = getattr(self, f"{scope}_{name}")
        return value

    def overridden(self, overrides: dict[str, Any]) -> Self:
        """Return these settings with the values of an agent.

        Args:
            overrides: values by setting; None for the general value.

        Raises:
            ConfigurationError: if a setting may not be overridden, or a value does not fit.
        """
        if not overrides:
            return self
        allowed = {name for name, field in type(self).model_fields.items() if OWN in field.metadata}
        if unknown := sorted(overrides.keys() - allowed):
            names = ", ".join(map(field_name, unknown))
            raise ConfigurationError(f"an agent cannot override {names}; it may override {', '.join(sorted(allowed))}")
        values = {name: value for name, value in overrides.items() if value is not None}
        if not values:
            return self
        return self._replaced(values)

    @classmethod
    def with_overrides(cls, settings: Self | None, overrides: Mapping[str, Any]) -> Self:
        """Return these settings with other values; a value of None leaves a setting unchanged.

        Args:
            settings: the settings; None for those of the environment.
            overrides: values by the name of the setting.

        Raises:
            ConfigurationError: if a value does not fit.
        """
        changes = {name: value for name, value in overrides.items() if value is not None}
        if settings is None:
            return cls(**changes)
        if not isinstance(settings, cls):
            raise ConfigurationError("settings: pass a Settings object, or nothing")
        if not changes:
            return settings
        return settings._replaced(changes)

    def _replaced(self, changes: Mapping[str, Any]) -> Self:
        changed = type(self).__new__(type(self))
        with typed_errors():
            # `BaseSettings.__init__` would read the environment again: 5 ms of every recall
            BaseModel.__init__(changed, **{**self.model_dump(), **changes})
        return changed

    def overridden_for_recall(self, overrides: dict[str, Any]) -> Self:
        """Return these settings with an agent's own values for a recall, which never reads `extraction`.

        That choice alone depends on another setting: an operator's later choice may not fit an agent's old one. This
        stops formation, and no recall.

        Raises:
            ConfigurationError: if a value does not fit.
        """
        if not overrides:
            return self
        return self.overridden({**overrides, "extraction": "sequential"})
