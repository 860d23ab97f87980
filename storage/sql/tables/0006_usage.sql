-- Which of the models a step asked, and of its input the tokens that the provider had in its cache, which cost less.
alter table token_usage add column tier text not null default '', add column cached_tokens bigint not null default 0;
