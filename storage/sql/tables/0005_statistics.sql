-- No statistics on contents: the planner's samples would keep texts and vectors of erased rows, and no plan needs them.
alter table memories alter content set statistics 0, alter content_hash set statistics 0, alter subject set statistics 0,
    alter tags set statistics 0;
alter table messages alter content set statistics 0, alter author set statistics 0;
alter table entries alter vec set statistics 0, alter next_vec set statistics 0, alter tsv set statistics 0;
alter table scopes alter name set statistics 0, alter extraction_guidance set statistics 0,
    alter consolidation_guidance set statistics 0;
alter table history_contents alter salt set statistics 0, alter before set statistics 0, alter after set statistics 0;
alter table checkpoints alter checkpoint set statistics 0, alter metadata set statistics 0;
alter table checkpoint_blobs alter blob set statistics 0;
alter table checkpoint_writes alter blob set statistics 0;
