"""Categories and allowlists: what a file may say, how it is laid over the packaged one, and which names count."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.runtime.categories import DEFAULT_CATEGORY, OWNER, Categories, load_categories
from mnemic.memory.runtime.plain_yaml import MAX_FILE_BYTES
from mnemic.models.offline.statements import rules
from mnemic.prompts.conversation import People
from mnemic.prompts.formation.extraction import EXTRACT_FACTS, EXTRACT_OBSERVATIONS, ExtractionInput
from mnemic.state.errors import CategoryRefusedError, ConfigurationError

PACKAGED = load_categories()
ROLES = {"supervisor", "planner", "stylist", "researcher", "executor"}
#: Plain lists, categories that only the packaged file defines, and names that it has not.
PLAIN_LISTS = """
categories:
  system:
    - name: profile
      context: all
    - name: event
      context: rag
      rag_length: 30
    - name: activity
      context: rag
      rag_length: 50
  custom: [{name: tone}, {name: interests}, {name: history}]
allowlists:
  supervisor: [profile, goals, preferences, event, activity, relationships, tasks]
  planner:    [goals, tasks, projects]
  stylist:    [preferences, tone, style]
  researcher: [knowledge, interests, history]
  executor:   [tasks, event, constraints]
"""
GOOD = "categories: {}\nallowlists: {planner: [tasks]}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "categories.yaml"


def load(file: Path, text: str | bytes) -> Categories:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_categories(file)


def test_the_packaged_lists_are_as_designed() -> None:
    assert {*PACKAGED.allowlists} == ROLES | {OWNER}
    assert {role for role in ROLES if PACKAGED.of_role(role).standing} == {"supervisor"}
    assert {role for role in ROLES if "message" in PACKAGED.of_role(role).categories} == {"supervisor"}
    assert {role for role in ROLES if "procedural" in PACKAGED.of_role(role).categories} == {"planner", "executor"}
    assert PACKAGED.always == ("profile",)
    assert {*PACKAGED.by_name} - {*PACKAGED.formed} == {"relationship_dynamic", "procedural", "journal", "message"}
    assert (PACKAGED.rag_lengths["activity"], PACKAGED.rag_lengths["style"]) == (50, 10)


def test_every_formed_category_is_explained_in_the_extraction_prompts() -> None:
    said = ExtractionInput(
        lines=(), people=People(), guidance="", categories=(*PACKAGED.offered, ("recipes", "")), limit=1
    )
    for step in (EXTRACT_FACTS, EXTRACT_OBSERVATIONS):  # of reflections the schema names them
        _, user = step.messages(said)
        shown = user.text.partition("Categories:\n")[2].partition("\nWho takes part")[0].splitlines()
        assert shown == [*(f"- {name}: {PACKAGED.by_name[name].meaning}" for name in PACKAGED.formed), "- recipes"]
    assert all(len(PACKAGED.by_name[name].meaning) > len(name) for name in PACKAGED.formed)


def test_the_rules_name_categories_that_may_be_formed() -> None:
    assert {rule.category for rule in rules()} <= {*PACKAGED.formed}


def test_a_file_in_the_seeds_own_form_is_laid_over_the_packaged_one(file: Path) -> None:
    loaded = load(file, PLAIN_LISTS)

    assert {*loaded.by_name} - {*PACKAGED.by_name} == {"tone", "interests", "history"}
    assert all(loaded.by_name[name] == category for name, category in PACKAGED.by_name.items())
    for role, names in yaml.safe_load(PLAIN_LISTS)["allowlists"].items():
        assert loaded.requested(role, None) == tuple(names)
        assert loaded.of_role(role).standing == PACKAGED.of_role(role).standing
        with pytest.raises(CategoryRefusedError, match="message"):
            loaded.requested(role, ["message"])


def test_file_adds_categories_and_changes_only_the_listed_fields(file: Path) -> None:
    loaded = load(
        file,
        """
        categories:
          system: [{name: procedural, rag_length: 3}, {name: constraints, context: all}]
          custom: [{name: recipes, meaning: what somebody cooks, personal: true},
                   {name: house_rules, context: all, formed: false}]
        allowlists:
          cook: {categories: [recipes, house_rules, recipes], standing: true}
          supervisor: {categories: [recipes], standing: false}
        """,
    )

    assert loaded.by_name["procedural"] == PACKAGED.by_name["procedural"].model_copy(update={"rag_length": 3})
    assert loaded.always == ("profile", "constraints", "house_rules")
    assert loaded.offered == (*PACKAGED.offered, ("recipes", "what somebody cooks"))
    assert loaded.personal == {*PACKAGED.personal, "recipes"}
    assert (loaded.requested("cook", None), loaded.of_role("cook").standing) == (("recipes", "house_rules"), True)
    assert not loaded.of_role("supervisor").standing
    assert {*loaded.allowlists} == {"cook", "supervisor", OWNER}
    assert {*loaded.of_role(OWNER).categories} == {*loaded.by_name}


def test_a_file_may_narrow_even_the_owner(file: Path) -> None:
    assert load(file, "categories: {}\nallowlists: {owner: [tasks]}").requested(OWNER, None) == ("tasks",)


def test_what_formation_names_otherwise_is_stored_as_the_default(file: Path) -> None:
    loaded = load(file, "categories: {custom: [{name: recipes}, {name: house_rules, formed: false}]}\nallowlists: {}")

    assert [loaded.stored_as(name) for name in ("recipes", "tasks")] == ["recipes", "tasks"]
    for name in ("house_rules", "Recipes", "recipes ", "journal", "message", "\x00", ""):
        assert loaded.stored_as(name) == DEFAULT_CATEGORY


BOMB = "a: &a [x,x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)},*{chr(97 + n)}]\n" for n in range(20))
WRONG: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "the whole"),
    "no categories": ("allowlists: {}", "categories"),
    "a part of another name": (GOOD + "agents: {}", "agents: there is no such key"),
    "a category twice": ("categories: {system: [{name: x}], custom: [{name: x}]}\nallowlists: {}", "more than once: x"),
    "a role twice": ("categories: {}\nallowlists: {planner: [tasks], planner: [message]}", "a repeated key"),
    "an unknown category": ("categories: {}\nallowlists: {planner: [tasks, chores]}", r"allowlists\.planner.*chores"),
    "an impossible role": ('categories: {}\nallowlists: {"plan\\u202ener": [tasks]}', "allowlists"),
    "a list as a role": ("categories: {}\nallowlists: {? [planner] : [tasks]}", "YAML"),
    "the default not formed": ("categories: {system: [{name: knowledge, formed: no}]}\nallowlists: {}", "knowledge"),
    "a long meaning": (f"categories: {{custom: [{{name: x, meaning: {'y' * 91}}}]}}\nallowlists: {{}}", "meaning"),
    "a reference": ("categories: {}\nallowlists: {planner: &a [tasks], executor: *a}", "references"),
    "references to references": (BOMB, "references"),
    "two documents": (GOOD + "---\n" + GOOD, "YAML"),
    "tags that make objects": ("categories: !!python/object:os.system {}\nallowlists: !!set {}\nx: y", "x"),
    "an impossible tag": ("categories: {custom: [{name: !!timestamp x, formed: !!bool x}]}\nallowlists: {}", "formed"),
    "an impossible character": ('categories: "\\UFFFFFFFF"', "YAML"),
    "very many brackets": ("[" * 30_000, "YAML"),
    "too much": (GOOD + "#" * MAX_FILE_BYTES, "64 KiB"),
    "latin-1": ("categories: {}\nallowlists: {planner: [t\xe4sks]}".encode("latin-1"), "UTF-8"),
    "zeros": (bytes(512), "YAML"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_does_not_fit_is_refused_by_the_name_of_what_is_wrong(file: Path, name: str) -> None:
    text, named = WRONG[name]
    with pytest.raises(ConfigurationError, match=f"^the categories file does not fit: .*{named}") as caught:
        load(file, text)
    assert caught.value.__cause__ is None
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "name",
    ["Tasks", "", "1st", "_x", "a-b", "tasks\n", " tasks", "ta\u200bsks", "tаsks", "x" * 65],
)
def test_a_categorys_name_is_short_and_plain(file: Path, name: str) -> None:
    wanted = yaml.safe_dump({"categories": {"custom": [{"name": name}]}, "allowlists": {}})
    with pytest.raises(ConfigurationError, match=r"categories\.custom\.0\.name"):
        load(file, wanted)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigurationError, match=f"cannot be read: {path}: "):
            load_categories(path)


_SIGNS = st.sampled_from([*"[]{}:,-?&*!|>'\"%@#\n \t\\.<=~0x", "categories", "allowlists", "name", "---", "!!int", "é"])


@given(text=st.binary(max_size=200) | st.lists(_SIGNS, max_size=40).map(lambda signs: "".join(signs).encode()))
def test_no_file_does_worse_than_be_refused(file: Path, text: bytes) -> None:
    with suppress(ConfigurationError):
        load(file, text)


_WIDE = {ord(sign): ord(sign) + 0xFEE0 for sign in "abcdefghijklmnopqrstuvwxyz"}
#: Spellings of a name that a careless comparison would take for the name itself.
_AROUND = ("{}%", "{}_", " {}", "{}\n", "\u200b{}", "{}\x00", "'{}'", "{{{}}}", "{},profile", "{}; --", "{}/../message")
_LONG = "{0}" * 20


@pytest.mark.parametrize("role", sorted(ROLES))
def test_no_role_gets_more_than_it_is_listed_for_by_any_spelling(role: str) -> None:
    for name in {*PACKAGED.by_name} - {*PACKAGED.of_role(role).categories} | {OWNER}:
        others = [name.upper(), name.title(), name.translate(_WIDE), name.replace("o", "о").replace("e", "е")]
        for spelling in {name, *others, *(around.format(name) for around in (*_AROUND, _LONG))}:
            with pytest.raises(CategoryRefusedError) as caught:
                PACKAGED.requested(role, [spelling])
            assert str(caught.value).startswith(f"categories: {refusal(role, spelling)}")


def refusal(role: str, name: str) -> str:
    """Return the reason of a refusal, which repeats a known name and a short word, and no other text."""
    if name in PACKAGED.by_name:
        return f"not on the allowlist of the role {role}: {name}"
    shown = repr(name) if name.isidentifier() and len(name) <= 64 else "this value"
    return f"{shown} is no category"


@given(role=st.sampled_from(sorted(ROLES)), data=st.data())
def test_a_request_is_met_as_it_is_or_refused_as_a_whole(role: str, data: st.DataObject) -> None:
    allowed = PACKAGED.of_role(role).categories
    known = st.sampled_from(sorted(PACKAGED.by_name))
    names = data.draw(st.lists(known | st.sampled_from(allowed) | st.text(max_size=12), max_size=6))
    if {*names} <= {*allowed}:
        assert PACKAGED.requested(role, names) == tuple(dict.fromkeys(names))
    else:
        with pytest.raises(CategoryRefusedError) as caught:
            PACKAGED.requested(role, names)
        for name in {*names} & {*PACKAGED.by_name} - {*allowed}:
            assert name in str(caught.value)


def test_naming_none_means_all_that_are_allowed_and_an_empty_list_nothing() -> None:
    assert PACKAGED.requested("planner", None) == ("goals", "tasks", "projects", "procedural")
    assert PACKAGED.requested("planner", []) == ()


@pytest.mark.parametrize("role", ["", "Planner", "planner ", "ｐlanner", "nobody", "*"])
def test_an_unknown_role_is_refused(role: str) -> None:
    for names in (None, [], ["tasks"]):
        with pytest.raises(CategoryRefusedError, match=r"no allowlist.*supervisor.*MNEMIC_CATEGORIES_FILE"):
            PACKAGED.requested(role, names)


# -- the page


def page_rows() -> dict[str, list[str]]:
    """Cells of each row of the tables of the page whose first cell is one name, by that name."""
    page = (Path(__file__).parents[3] / "docs" / "categories.md").read_text(encoding="utf-8")
    rows: dict[str, list[str]] = {}
    for line in page.splitlines():
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and first.count("`") == 2:
            rows[first.strip("`")] = cells
    return rows


def test_the_page_lists_the_packaged_categories_and_roles() -> None:
    rows, yes_or_no = page_rows(), {True: "yes", False: "no"}
    for name, category in PACKAGED.by_name.items():
        context = "always" if category.context == "all" else "if found"
        expected = [context, str(category.rag_length), yes_or_no[category.formed], yes_or_no[category.personal]]
        assert rows[name][1:] == expected, name
    for role, allowlist in PACKAGED.allowlists.items():
        categories, standing = rows[role]
        assert standing == yes_or_no[allowlist.standing], role
        if categories.startswith("all"):
            assert {*PACKAGED.by_name} - {*allowlist.categories} == {*re.findall("`(.+?)`", categories)}, role
        else:
            assert tuple(re.findall("`(.+?)`", categories)) == allowlist.categories, role
