"""Forty labelled pairs of search texts, `[date] subject: content`: the ground of MiniLM's bands."""

Pair = tuple[str, str]

#: The same said in other words, or with a detail more.
PARAPHRASES: tuple[Pair, ...] = (
    ("[3 March 2026] Mara: Mara works as a nurse.", "[8 May 2026] Mara: Mara's job is nursing."),
    ("[3 March 2026] Mara: Mara is allergic to peanuts.", "[8 May 2026] Mara: Mara has a peanut allergy."),
    ("[2 June 2026] Jonas: Jonas lives in Bergen.", "[9 July 2026] Jonas: Jonas's home is in Bergen, Norway."),
    ("[2 June 2026] Jonas: Jonas likes pizza.", "[4 June 2026] Jonas: Jonas loves eating pizza."),
    (
        "[1 April 2026] Ines: Ines wants answers in Portuguese.",
        "[20 April 2026] Ines: Ines asks to be answered in Portuguese.",
    ),
    (
        "[1 April 2026] Ines: Ines has a dog named Bolt.",
        "[9 May 2026] Ines: Ines owns a three-year-old dog called Bolt.",
    ),
    (
        "[5 May 2026] Harbor: The Harbor pilot starts on 1 September 2026.",
        "[6 May 2026] Harbor: The pilot of Harbor begins on 1 September 2026.",
    ),
    (
        "[5 May 2026] Teo: Teo is training for a marathon in Oslo.",
        "[7 June 2026] Teo: Teo is preparing to run the Oslo marathon.",
    ),
    (
        "[5 May 2026] Teo: Teo's daughter Lina is six years old.",
        "[9 June 2026] Teo: Lina, Teo's daughter, is six.",
    ),
    (
        "[5 May 2026] Wren: Wren prefers short answers.",
        "[8 August 2026] Wren: Wren likes replies to be brief.",
    ),
)

#: One attribute of one subject, with another value.
CONTRADICTIONS: tuple[Pair, ...] = (
    ("[3 March 2026] Mara: Mara works as a nurse.", "[8 May 2026] Mara: Mara works as a teacher."),
    ("[3 March 2026] Mara: Mara is a vegetarian.", "[8 May 2026] Mara: Mara eats meat again."),
    ("[2 June 2026] Jonas: Jonas lives in Bergen.", "[9 July 2026] Jonas: Jonas moved to Hamburg."),
    ("[2 June 2026] Jonas: Jonas likes pizza.", "[4 August 2026] Jonas: Jonas dislikes pizza."),
    (
        "[1 April 2026] Ines: Ines wants answers in Portuguese.",
        "[20 May 2026] Ines: Ines wants answers in English from now on.",
    ),
    (
        "[1 April 2026] Ines: Ines drinks coffee every morning.",
        "[9 June 2026] Ines: Ines has stopped drinking coffee.",
    ),
    (
        "[5 May 2026] Harbor: The Harbor pilot starts on 1 September 2026.",
        "[6 June 2026] Harbor: The Harbor pilot was moved to 15 October 2026.",
    ),
    (
        "[5 May 2026] Teo: Teo is training for a marathon in Oslo.",
        "[7 June 2026] Teo: Teo gave up the marathon in Oslo because of his knee.",
    ),
    (
        "[5 May 2026] Teo: Teo's manager is Priya.",
        "[9 June 2026] Teo: Teo's manager is now Samir.",
    ),
    (
        "[5 May 2026] Wren: Wren prefers short answers.",
        "[8 August 2026] Wren: Wren prefers long, detailed answers.",
    ),
)

#: The same subject and field of life, and both true.
RELATED: tuple[Pair, ...] = (
    ("[3 March 2026] Mara: Mara works as a nurse.", "[8 May 2026] Mara: Mara works night shifts in June."),
    ("[3 March 2026] Mara: Mara is allergic to peanuts.", "[8 May 2026] Mara: Mara cooks Thai food on Sundays."),
    ("[2 June 2026] Jonas: Jonas lives in Bergen.", "[9 July 2026] Jonas: Jonas's flat has a leaking roof."),
    ("[2 June 2026] Jonas: Jonas likes pizza.", "[4 June 2026] Jonas: Jonas likes sushi."),
    ("[1 April 2026] Ines: Ines has a dog named Bolt.", "[9 May 2026] Ines: Ines goes hiking with her dog."),
    (
        "[5 May 2026] Harbor: The Harbor pilot starts on 1 September 2026.",
        "[6 May 2026] Harbor: Harbor's pilot takes no payments.",
    ),
    (
        "[5 May 2026] Teo: Teo is training for a marathon in Oslo.",
        "[7 June 2026] Teo: Teo bought new running shoes.",
    ),
    ("[5 May 2026] Teo: Teo's manager is Priya.", "[9 June 2026] Teo: Teo leads the database team."),
    (
        "[5 May 2026] Wren: Wren prefers short answers.",
        "[8 August 2026] Wren: Wren reads answers on a phone.",
    ),
    ("[5 May 2026] Wren: Wren studies law.", "[8 August 2026] Wren: Wren has an exam on 3 September 2026."),
)

#: The same subject, and nothing else in common.
UNRELATED: tuple[Pair, ...] = (
    ("[3 March 2026] Mara: Mara works as a nurse.", "[8 May 2026] Mara: Mara's bicycle is green."),
    ("[3 March 2026] Mara: Mara is allergic to peanuts.", "[8 May 2026] Mara: Mara's server runs Debian 13."),
    ("[2 June 2026] Jonas: Jonas lives in Bergen.", "[9 July 2026] Jonas: Jonas plays the cello."),
    ("[2 June 2026] Jonas: Jonas likes pizza.", "[4 June 2026] Jonas: Jonas's tax return is due on 30 April."),
    ("[1 April 2026] Ines: Ines has a dog named Bolt.", "[9 May 2026] Ines: Ines writes Rust at work."),
    (
        "[1 April 2026] Ines: Ines wants answers in Portuguese.",
        "[9 May 2026] Ines: Ines's car needs new tyres.",
    ),
    (
        "[5 May 2026] Harbor: The Harbor pilot starts on 1 September 2026.",
        "[6 May 2026] Harbor: Harbor's coffee machine is broken.",
    ),
    ("[5 May 2026] Teo: Teo is training for a marathon in Oslo.", "[7 June 2026] Teo: Teo's invoices go to Priya."),
    ("[5 May 2026] Teo: Teo's daughter Lina is six years old.", "[9 June 2026] Teo: Teo uses PostgreSQL 17."),
    ("[5 May 2026] Wren: Wren studies law.", "[8 August 2026] Wren: Wren's favourite colour is teal."),
)
