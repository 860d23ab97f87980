"""Every number and choice of Mnemic, by name and with its unit; read once at the edge, arguments first.

What is `Own` an agent may have a value of its own for (`agents.settings`).
"""

import os
from collections.abc import Collection
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

#: Variables with the prefix that are no settings: where Postgres' programs are, and the data of the benchmarks.
_OTHER_VARIABLES = ("MNEMIC_PG_BINDIR", "MNEMIC_DATA")
_ALIASES = ("OPENAI_API_KEY",)


class Settings(ModelSettings):
    """All settings, read from the environment with the prefix `MNEMIC_`; arguments beat it.

    Raises:
        ConfigurationError: a setting does not fit.
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
    #: DSN of the service's own role `mnemic_app`. None: the embedded server.
    database_url: SecretStr | None = None
    #: DSN of the administrators' role `mnemic_admin`, for `Administration` only. None: that of the embedded server.
    admin_url: SecretStr | None = None
    #: DSN of a role that may create roles, the extension and the schema; used by `mnemic db migrate` only.
    migration_url: SecretStr | None = None
    #: Where the embedded server keeps its data. None: the platform's data directory.
    data_dir: Path | None = None
    pool_size: PositiveInt = 10
    pool_timeout_seconds: Seconds = 10
    #: `transaction`: a pooler lends a server connection for one transaction, so no statement is prepared there.
    #: `none`: a connection stays the same, a pooler's too. `auto`: looks for one, and prepares where it finds none.
    pooler: Literal["auto", "none", "transaction"] = "auto"
    #: One statement of a write; one of a recall, and its question's vector; the wait for another transaction's row.
    statement_timeout_seconds: Seconds = 30
    recall_timeout_seconds: Seconds = 2
    lock_timeout_seconds: Seconds = 1

    # -- formation
    #: Facts and their recall by search; off also stops forming them.
    rag: Own[bool] = True
    #: Reflections and consolidations; off also stops forming them.
    always_in_context: Own[bool] = True
    #: Which messages stay searchable after formation. None: `all` with the offline model, else `sources`.
    keep_messages: Own[Literal["sources", "all", "none"] | None] = None
    #: `sequential`: facts, decisions, reflections in turn. `single`: one call for observations alone.
    extraction: Own[Extraction] = "sequential"
    #: `batch`: when enough was said. `per_turn`: after every turn of a user, within the caps below.
    formation_mode: Own[Literal["batch", "per_turn"]] = "batch"
    formation_min_messages: Own[PositiveInt] = 4
    formation_messages: Own[PositiveInt] = 45
    formation_tokens: Own[PositiveInt] = 1000
    session_cold_minutes: Own[PositiveInt] = 10
    #: Messages one run takes; At 12 facts per 10 messages, 40 messages reach the most of a run.
    formation_batch_messages: PositiveInt = 50
    #: Tokens of messages one run takes, so that prompt and embeddings stay within what endpoints accept.
    formation_batch_tokens: PositiveInt = 16_000
    #: A sentence says one thing, so that each can change by itself: of 31 messages a careful reader keeps up to 31.
    facts_per_ten_messages: PositiveInt = 12
    facts_per_run: PositiveInt = 48
    #: Facts that contradictions may close in one run, for each message that people typed; never below 3. Of the example
    #: conversations, one of 18 such messages ends 12.
    closings_per_message: Annotated[float, Field(gt=0)] = 1.0
    neighbours: PositiveInt = 5
    #: Stored facts that a decision on a new one is shown at most, and tokens of them in one call.
    candidates_per_fact: PositiveInt = 12
    decision_tokens: PositiveInt = 1600
    #: Cosine similarity from which a new fact is related to a neighbour. None: from its embedder's fallback band on
    #: (0.55 for models of OpenAI; three of four unrelated pairs reach that with minilm, so its band begins at 0.67).
    link_min: Annotated[float, Field(gt=0, le=1)] | None = None
    #: Characters of a turn above which several facts are looked for, and how many; a shorter one has one.
    multi_fact_chars: PositiveInt = 600
    multi_fact_candidates: PositiveInt = 5
    writes_per_turn: PositiveInt = 3
    #: Beyond these a user's sessions are formed in batches until midnight (UTC).
    writes_per_user_and_day: PositiveInt = 20

    # -- time
    #: Time zone of people whose identity names none, for times without an offset and for the current day.
    timezone: ZoneName = "UTC"

    # -- sharing
    #: Who may tell everybody something: those whose identity says `teaches_agent`, every user (closed circles), nobody.
    share_with_agent: Own[Literal["taught", "open", "off"]] = "taught"
    #: Whether what a member types becomes the group's.
    share_with_group: Own[bool] = True

    # -- explicit writes
    #: A conversation that talks an agent into forgetting does no more damage than that; all of it can be undone.
    forgets_per_session_and_day: PositiveInt = 10
    #: Memories that a model's calls may have kept; by its own calls a host keeps as many as it likes.
    remembers_per_session_and_day: PositiveInt = 30

    # -- retention and audit
    #: Days after which a formed message that is not kept loses its words, if a memory or the model's own word accounts
    #: for it. 0: at once.
    forget_after_days: Annotated[int, Field(ge=0, le=36_500)] = 7
    #: Days after which a purge erases what has expired. None: it stays soft-deleted for ever.
    retention_purge_after_days: PositiveInt | None = None
    #: The secret that signs the anchors of the audit; whoever can read the database must not have it.
    anchor_key: Key | None = None

    # -- traces
    #: Whether tracers such as LangSmith's record messages and memories; off, they record names, times and token counts.
    trace_contents: bool = False

    # -- the server
    #: The secret that signs the server's bearer tokens (`mnemic token`). None: development, where everybody is let in.
    server_key: Key | None = None

    # -- failures
    #: How long a run keeps a session, or a scope key, for itself; a killed one's work is taken up after that. A run of
    #: three steps with a healthy model takes a minute.
    lease_seconds: PositiveInt = 600
    #: Unusable answers before a message is set aside; the last of them to this message alone.
    retry_policy: PositiveInt = 5
    #: The wait after a failure; four times as long after each further one, up to the longest.
    retry_seconds: PositiveInt = 60
    longest_retry_seconds: PositiveInt = 3600

    # -- consolidation
    agent_threshold: Own[PositiveInt] = 8
    group_threshold: Own[PositiveInt] = 8
    user_threshold: Own[PositiveInt] = 4
    session_threshold: Own[PositiveInt] = 4
    agent_word_limit: Own[PositiveInt] = 1000
    group_word_limit: Own[PositiveInt] = 500
    user_word_limit: Own[PositiveInt] = 400
    session_word_limit: Own[PositiveInt] = 400
    #: Reflections one consolidation takes in, the oldest first; several thresholds, and a prompt of bounded length.
    consolidation_reflections: PositiveInt = 50
    #: Share of the details of its sources below which a new text is refused, and the reflections stay in context. Of
    #: 13 texts of a careful reader (benchmarks/corpus) the one that kept least had 0.54.
    consolidation_min_kept_share: Annotated[float, Field(ge=0, le=1)] = 0.3

    # -- refinement
    #: Tokens of one scope key's core memory above which a refinement is due, and what it shall come down to.
    refinement_budget_tokens: Own[PositiveInt] = 8000
    refinement_target_tokens: Own[PositiveInt] = 5000
    #: Who an agent is, in its own words: for the supervisor's answers, and refinement in the agent's own voice.
    #: The language in which memories are written, such as `English`. None: that of the conversation.
    language: Own[Annotated[str, Field(min_length=1, max_length=60)] | None] = None
    persona: Own[Annotated[str, Field(min_length=1, max_length=4000)] | None] = None
    #: Where a session ends at the latest: turns of the agent, tokens of the model's calls, minutes since it began.
    refinement_steps: PositiveInt = 60
    refinement_model_tokens: PositiveInt = 1_000_000
    refinement_minutes: PositiveInt = 60
    #: Tokens of memories that are shown at once.
    refinement_batch_tokens: PositiveInt = 12_000
    #: Of the memories a session began with, how many it may take away without keeping them elsewhere; and of the tokens
    #: that are its target, how many may be protected: a misled session can neither empty a memory nor freeze it.
    refinement_removed_percent: Annotated[int, Field(ge=1, le=100)] = 25
    refinement_protected_percent: Annotated[int, Field(ge=1, le=100)] = 25

    # -- the background
    #: Whether `Mnemic.open` and LangGraph Server do background work; off where `mnemic worker` does it.
    background: bool = True
    #: Jobs that one process does side by side; more of them only run into a provider's limit of requests.
    jobs_at_once: PositiveInt = 4
    #: Tokens of models that the agents of one tenant may use in a day (UTC); used up, background work with models waits
    #: for the next day. None: no limit.
    tenant_daily_tokens: PositiveInt | None = None
    #: Days that events are kept: counts of what the service did.
    events_days: PositiveInt = 30
    #: Cron line of the weekly refinement, with an optional time zone; or `off`.
    refinement_schedule: Own[CronLine] = "0 4 * * sun"
    #: Whether a member's memories are raised to the group in whose session the member typed them, and memories of two
    #: groups or two strangers to all users.
    propagation: Own[bool] = True
    #: Whether the fast model draws insights about active users, in one call per user and day. On by default: they stay
    #: with their user, who can read and erase them, and they count half in a search.
    insights: Own[bool] = True

    # -- near duplicates
    #: `all`: pairs from the embedder's `fallback` band on. Facts of one conversation, and facts that are remembered
    #: explicitly, are compared by no model before. `fallback`: only the pairs below the `check` band.
    pair_band: Literal["all", "fallback"] = "all"
    #: Pairs that a model judges per scope key and day (UTC), and in one prompt: each costs about 60 tokens.
    pairs_per_user_and_day: PositiveInt = 50
    pairs_per_prompt: Annotated[int, Field(ge=1, le=10)] = 8
    #: Facts that are compared with the others: changed within so many hours, at least this important, or among so many
    #: percent of the facts that are recalled most often.
    pair_changed_hours: PositiveInt = 72
    pair_importance: Annotated[int, Field(ge=1, le=5)] = 3
    pair_use_percent: Annotated[int, Field(ge=1, le=100)] = 10
    #: Facts of one scope key that are compared in a run. The changed ones come first, the others take turns by day.
    pair_candidates: PositiveInt = 200
    #: Days since the last change after which a fact is compared no more.
    pair_updated_days: PositiveInt = 90
    #: Days for which a judged pair is not judged again unless one of its facts changes.
    pair_rest_days: PositiveInt = 14

    # -- maintenance
    #: Cron line of the daily maintenance, with an optional time zone; or `off`. Tenants are spread over two hours.
    maintenance_schedule: Own[CronLine] = "0 3 * * *"
    #: Whether the scheduled maintenance only records what it would change.
    maintenance_dry_run: Own[bool] = False
    #: Days without use after which a fact, an episode or an insight is soft-deleted, if its importance is below
    #: `ttl_importance` and it is neither pinned nor protected (B 7).
    ttl_days: Own[Annotated[int, Field(ge=1, le=36_500)]] = 60
    ttl_importance: Own[Annotated[int, Field(ge=1, le=6)]] = 3
    #: Days without a new checkpoint after which a thread keeps its latest one only. None: it keeps all of them.
    thread_prune_days: Own[Annotated[int, Field(ge=1, le=36_500)] | None] = None

    # -- recall
    #: Categories and allowlists, in the form of `memory/runtime/categories.yaml`. None: that file.
    categories_file: Path | None = None
    #: Phrases that ask for a recall, laid over `memory/runtime/requests.yaml` language by language. None: that file.
    recall_requests_file: Path | None = None
    #: Facts that are always in context take of it what the other standing texts leave.
    standing_tokens: PositiveInt = 8000
    recall_budget_tokens: Own[Annotated[int, Field(ge=1, le=MAX_BUDGET_TOKENS)]] = 1000
    #: Memories an automatic recall returns at most.
    recall_limit: Own[Annotated[int, Field(ge=1, le=100)]] = 5
    fusion: Literal["weighted", "rrf"] = "weighted"
    rrf_k: PositiveInt = 60
    #: Rows each branch of a search contributes before fusion.
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
            ConfigurationError: with the name, and the nearest one that exists.
        """
        fields = cls.model_fields.keys()
        variables = [f"{PREFIX}{name.upper()}" for name in fields]
        for name in arguments:
            if name not in fields and name not in variables and name not in _ALIASES:
                raise ConfigurationError(f"there is no setting {field_name(name)}{nearest(name, fields)}")
        for name in os.environ:
            if name.upper().startswith(PREFIX) and name.upper() not in (*variables, *_OTHER_VARIABLES):
                near = nearest(name.upper(), variables)
                raise ConfigurationError(f"the environment or .env sets {field_name(name)}, which is no setting{near}")

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_passed_on(cls, value: object) -> object:
        if isinstance(value, str) and not str.isprintable("".join(str.split(value))):
            raise ValueError("holds characters that cannot be used")
        return value

    @field_validator("extraction")
    @classmethod
    def _forms_what_is_switched_on(cls, extraction: str, info: ValidationInfo) -> str:
        if extraction == "single" and info.data.get("always_in_context") is False:
            raise ValueError("single forms reflections alone, so it needs always_in_context on")
        return extraction

    @property
    def kept_messages(self) -> Literal["sources", "all", "none"]:
        """Which messages stay searchable: everything when rules form the memories, for rules catch few of the facts."""
        is_offline = self.model_for("fast") == self.model_for("slow") == OFFLINE
        return self.keep_messages or ("all" if is_offline else "sources")

    @property
    def refinement_target(self) -> int:
        """Tokens a refinement works towards: of the one of the two that somebody set later the other may be less."""
        return min(self.refinement_target_tokens, self.refinement_budget_tokens)

    def require_target_within_budget(self, variables: Collection[str] = ()) -> None:
        """For whoever sets one of the two; where an older value no longer fits, nothing is to stop.

        Args:
            variables: settings that came from the environment, whose variables are named.

        Raises:
            ConfigurationError: the target is more than the budget.
        """
        target, budget = self.refinement_target_tokens, self.refinement_budget_tokens
        if target > budget:
            raise ConfigurationError(
                f"settings do not fit: {named_setting('refinement_target_tokens', variables)}: {target:,} is more than"
                f" refinement_budget_tokens, which is {budget:,}: set both"
            )

    def of_scope(self, scope: Scope, name: Literal["threshold", "word_limit"]) -> int:
        """Unabsorbed reflections that make a consolidation of this scope due; or words that one may have."""
        value: int = getattr(self, f"{scope}_{name}")
        return value

    def overridden(self, overrides: dict[str, Any]) -> Self:
        """These settings with an agent's own values; None: it has none of its own.

        Raises:
            ConfigurationError: a name may not be overridden, or a value does not fit.
        """
        may_have = {name for name, field in type(self).model_fields.items() if OWN in field.metadata}
        if unknown := sorted(overrides.keys() - may_have):
            names = ", ".join(map(field_name, unknown))
            raise ConfigurationError(f"an agent cannot override {names}; it may set {sorted(may_have)}")
        own = {name: value for name, value in overrides.items() if value is not None}
        if not own:
            return self
        changed = type(self).__new__(type(self))
        with typed_errors():
            # not BaseSettings' own, which would read the environment again: 5 ms of every recall
            BaseModel.__init__(changed, **{**self.model_dump(), **own})
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
