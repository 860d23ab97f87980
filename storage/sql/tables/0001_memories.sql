-- Agents, their scope keys, sessions and messages; memories and their search entries.

create table agents (
    agent_id    text primary key,
    tenant_id   text not null default 'default',
    settings    jsonb not null default '{}',
    -- The last move to another embedder: the target, the embedder whose vectors are searched until the switch, and the
    -- time of the switch. The time is infinity once no entry of an earlier writer can be left.
    next_model      text,
    searched_model  text,
    moved_at        timestamptz
);
create index agents_moving on agents (agent_id) where next_model is not null and (moved_at is null or moved_at < 'infinity');

-- One row per scope key with settings or counters of its own.
create table scopes (
    agent_id                text not null references agents,
    scope_key               text not null,
    name                    text,
    extraction_guidance     text,
    consolidation_guidance  text,
    is_active               boolean not null default true,
    threshold               integer check (threshold > 0),
    word_limit              integer check (word_limit > 0),
    -- memories written for turns of this user on the day
    turn_writes             integer not null default 0,
    turn_writes_on          date,
    -- last row of history that propagation checked
    propagated_revision     bigint not null default 0,
    -- when insights about the user were drawn last
    insights_at             timestamptz,
    primary key (agent_id, scope_key)
);

-- Leases on a session (formation; retry of quarantined messages) or a scope key (consolidation, refinement,
-- maintenance), with failures. A lease saves model calls; formed_by and versions guard the writes. holder is null while
-- a failed run waits. A successful run deletes its row.
create table leases (
    agent_id   text not null references agents,
    scope_key  text not null,
    work       text not null,
    holder     uuid,
    until      timestamptz not null,
    -- runs on the same work with unusable answers
    attempts   integer not null default 0,
    -- consecutive failures, which set the wait
    failures   integer not null default 0,
    primary key (agent_id, scope_key, work)
);

create table sessions (
    agent_id          text not null references agents,
    session_id        text not null,
    message_count     bigint not null default 0,
    last_activity_at  timestamptz not null,
    -- identity of the run that observed last: user, groups, members and role; a job forms the session with it
    identity          jsonb not null default '{}',
    -- whether a job checks the session once it is cold
    is_waiting        boolean not null default false,
    -- users that observed, spoke or were named as members; for all others the id leads to a session of their own
    participants      text[] not null default '{}',
    -- whether runs with different groups observed the session; no group then owns its messages
    is_mixed          boolean not null default false,
    primary key (agent_id, session_id)
);
create index sessions_waiting on sessions (last_activity_at) where is_waiting;

-- The last seen revision of each reader (role and user) in a session, and the memories shown to it. A removal is
-- announced only to readers that were shown the memory.
create table thread_revisions (
    agent_id    text not null,
    session_id  text not null,
    reader      text not null,
    seen_revision    bigint not null,
    shown       uuid[] not null default '{}',
    primary key (agent_id, session_id, reader),
    foreign key (agent_id, session_id) references sessions
);
-- The inbox (formed_by is null) and the kept source messages. A message that is not kept loses its content later and
-- stays as a skeleton, so that a resent message changes nothing.
create table messages (
    agent_id    text not null,
    id          uuid not null,
    session_id  text not null,
    scope_key   text not null,
    -- number within the session, from 1; neighbours differ by one
    place       bigint not null,
    role        text not null,
    author      text not null,
    user_id     text,
    content     text,
    said_at     timestamptz not null,
    -- minutes east of UTC at the speaker's place; dates and times are shown with it
    utc_offset  smallint not null default 0 check (utc_offset between -840 and 840),
    formed_by   uuid,
    created_at  timestamptz not null default clock_timestamp(),
    -- no model gave a usable answer; the message is pending and only a retry reads it
    quarantined   boolean not null default false,
    -- actor of the run that observed the message, not always its author
    submitted_by  text,
    -- when the content of a formed message is deleted; null if it stays or is deleted
    forget_at   timestamptz,
    -- message with these attachments
    attached_to uuid,
    primary key (agent_id, id),
    foreign key (agent_id, session_id) references sessions
);
create index messages_pending on messages (agent_id, session_id, quarantined, place) where formed_by is null;
create index messages_forgotten on messages (agent_id, forget_at) where forget_at is not null;
create index messages_attached on messages (agent_id, attached_to) where attached_to is not null;

create table memories (
    agent_id           text not null references agents,
    id                 uuid not null,
    kind               text not null,
    scope_key          text not null,
    subject            text not null,
    subject_user_id    text,
    category           text not null,
    content            text not null,
    content_hash       uuid not null generated always as (md5(coalesce(draft, content))::uuid) stored,
    tokens             integer not null generated always as ((char_length(content) + 3) / 4) stored,
    importance         smallint not null check (importance between 1 and 5),
    pinned             boolean not null default false,
    protected          boolean not null default false,
    private            boolean not null default false,
    tags               text[],
    provenance         text not null,
    state              text not null default 'active',
    superseded_by      uuid,
    absorbed_at        timestamptz,
    consolidated_into  uuid,
    valid_from         timestamptz not null,
    -- offset of the message that the memory was formed from; valid_from is shown with it
    utc_offset         smallint not null default 0 check (utc_offset between -840 and 840),
    valid_until        timestamptz,
    purge_at           timestamptz,
    created_at         timestamptz not null default clock_timestamp(),
    updated_at         timestamptz not null default clock_timestamp(),
    version            integer not null default 1,
    source_session_id  text,
    run_id             text,
    actor_id           text,
    role               text,
    -- complete sentence that a member typed and the memory rests on; other users see it with the memory
    said               text,
    -- text of a model, if readers get the typed sentence instead; formation reads it and it is indexed
    draft              text,
    -- author that withdrew the memory from other users and is its only reader
    withdrawn_by       text,
    primary key (agent_id, id),
    constraint memories_said_check check (state <> 'purged' and octet_length(said) <= {max_content_bytes} or said is null),
    constraint memories_draft_check check (state <> 'purged' and octet_length(draft) <= {max_content_bytes} or draft is null),
    -- An erased memory keeps its row without content and subject.
    constraint memories_content_check check ((content <> '' or state = 'purged') and octet_length(content) <= {max_content_bytes}),
    check (kind <> 'fact' or scope_key not like 'session:%'),
    check ((state = 'superseded') = (superseded_by is not null)),
    check ((state = 'absorbed') = (consolidated_into is not null))
);
-- A text is unique per scope key, subject user and kind. Another user may store the same text.
create unique index memories_unique_text on memories (agent_id, scope_key, content_hash, kind, coalesce(subject_user_id, ''))
    where state = 'active';
create unique index memories_one_consolidation on memories (agent_id, scope_key)
    where state = 'active' and kind = 'consolidation';
-- The context memories are read on every turn without the other facts of the scope key, except facts of a category that
-- is always in context.
create index memories_context on memories (agent_id, scope_key, kind, category) where state = 'active';
-- One scan over the waiting reflections finds the scope keys that are due.
create index memories_reflections on memories (agent_id, scope_key) where state = 'active' and kind = 'reflection';

-- Few memories are superseded, consolidated or journals.
create index memories_superseded on memories (agent_id, superseded_by) where superseded_by is not null;
create index memories_absorbed on memories (agent_id, consolidated_into) where consolidated_into is not null;
create index memories_journals on memories (agent_id, scope_key, created_at) where kind = 'journal';

-- Relations between memories. Both scope keys are stored: a relation is visible only with both ends.
create table relations (
    agent_id       text not null,
    from_id        uuid not null,
    to_id          uuid not null,
    relation_type  text not null default 'related_to',
    strength       real not null check (strength between 0 and 1),
    scope_key      text not null,
    to_scope_key   text not null,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (agent_id, from_id, to_id, relation_type),
    foreign key (agent_id, from_id) references memories,
    foreign key (agent_id, to_id) references memories,
    check (from_id <> to_id)
);
create index relations_to on relations (agent_id, to_id);
-- Propagated memories are few and checked every minute.
create index relations_propagated on relations (agent_id, from_id, to_id) where relation_type = 'propagated_from';

-- The last use of memories, written after the turn: a counter in memories would move the row each time.
create table memory_use (
    agent_id          text not null,
    memory_id         uuid not null,
    scope_key         text not null,
    access_count      bigint not null,
    last_accessed_at  timestamptz not null,
    primary key (agent_id, memory_id),
    foreign key (agent_id, memory_id) references memories
) with (fillfactor = 70);

create table sources (
    agent_id    text not null,
    memory_id   uuid not null,
    message_id  uuid not null,
    scope_key   text not null,
    primary key (agent_id, memory_id, message_id),
    foreign key (agent_id, memory_id) references memories,
    foreign key (agent_id, message_id) references messages
);
create index sources_message on sources (agent_id, message_id);

-- The only searched table. model is '' and vec is null while an embedding is pending: it is due after embed_after, and
-- the wait grows with the refusals. next_vec is the vector of next_model and replaces vec once all entries of the agent
-- have one.
create table entries (
    agent_id   text not null,
    scope_key  text not null,
    item_id    uuid not null,
    piece      smallint not null default 0,
    kind       text not null,
    category   text not null,
    model      text not null,
    refusals   smallint not null default 0,
    searchable     boolean not null default true,
    vec        halfvec check (l2_norm(vec) > 0),
    tsv        tsvector not null,
    embed_after  timestamptz,
    next_model  text,
    next_vec    halfvec check (l2_norm(next_vec) > 0),
    primary key (agent_id, item_id, piece),
    check ((model = '') = (vec is null)),
    check ((next_model is null) = (next_vec is null))
);
-- Scope first and exact: with the vector in the index, a search is one index-only scan, 0.5 ms per 1,000 rows with a
-- recall of 1.0. An approximate index loses half of the results of a scoped search, and row security ignores a GIN
-- index.
create index entries_scope on entries (agent_id, scope_key, model) include (item_id, piece, kind, category, vec) where searchable;
create index entries_pending on entries (agent_id, scope_key) where model = '';

create table token_usage (
    agent_id       text not null references agents,
    day            date not null,
    step           text not null,
    model          text not null,
    tier           text not null default '',
    calls          bigint not null,
    -- calls without reported tokens
    unreported_calls  bigint not null default 0,
    input_tokens   bigint not null,
    -- input tokens from the provider's cache, which cost less
    cached_tokens  bigint not null default 0,
    output_tokens  bigint not null,
    primary key (agent_id, day, step, model)
);
-- Tokens of all agents of a tenant on one day.
create index token_usage_day on token_usage (day);
