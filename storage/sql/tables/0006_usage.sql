-- Which of the models a step asked, of its input the tokens that the provider had in its cache, which cost less, and how
-- many of its calls nobody told the tokens of.
alter table token_usage add column tier text not null default '', add column cached_tokens bigint not null default 0,
    add column unreported_calls bigint not null default 0;
