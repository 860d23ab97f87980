"""The data directory: where it is by default, how it is made, and which version it belongs to."""

import os
import shutil
import sys
from pathlib import Path

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded.account import Account

LINUX = sys.platform == "linux"

#: pg_trgm and unaccent ask the C library what a letter is, not Postgres' own provider: under plain "C" they drop every
#: letter beyond ASCII. macOS may lack the first one.
_LETTER_LOCALES = ("C.UTF-8", "en_US.UTF-8", "C")


def default_data_dir() -> Path:
    """Where the server keeps its data unless told otherwise.

    For root it is the system's place, not /root: the account that the server runs under has to reach it.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/mnemic")
    configured = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".local" / "share") / "mnemic"


def prepare_base(base: Path, account: Account) -> None:
    """Make the directory that everything lies in, and see to it that the account can enter it.

    As root it stays root's own with mode 0711, so that the account can neither swap the lock files nor the copied
    programs. Only a directory that is new or empty has its mode changed.
    """
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account.switched and not any(base.iterdir()):
        base.chmod(base.stat().st_mode & 0o7777 | 0o011)
    if closed := account.closed_on_the_way(base / "data"):
        raise EmbeddedPostgresError(
            f"Postgres refuses to run as root, and user {account.name} cannot enter {closed}: choose a data directory "
            "outside of it (MNEMIC_DATA_DIR), or start as an ordinary user."
        )
    owner = (data if (data := base / "data").exists() else base).stat().st_uid
    if owner != account.uid and (owner or data.exists()):  # only root's own new directory may be another's
        raise EmbeddedPostgresError(
            f"{base} belongs to user id {owner}, and PostgreSQL runs as {account.name} here: choose another data "
            "directory (MNEMIC_DATA_DIR), or start as that user."
        )


def ensure_cluster(data: Path, binaries: Path, major: int, account: Account, *, durable: bool) -> None:
    """Make the data directory unless it is there; refuse one of another major version."""
    version = data / "PG_VERSION"
    if version.exists():
        _check_version(data, version.read_text().strip(), major)
        return
    if data.exists():
        raise EmbeddedPostgresError(f"{data} exists and is not a Postgres data directory: move it away.")
    unfinished = data.with_name("data.new")  # renamed when complete: a killed initdb leaves no half directory behind
    for locale in _LETTER_LOCALES:
        _make_empty(unfinished, account)
        try:
            account.run([binaries / "initdb", "-D", unfinished, *_initdb_options(major, locale, durable=durable)])
            break
        except EmbeddedPostgresError as error:
            if "locale" not in str(error) or locale == _LETTER_LOCALES[-1]:
                raise
    unfinished.rename(data)
    if durable:
        _sync_directory(data.parent)


def _check_version(data: Path, existing: str, major: int) -> None:
    if existing != str(major):
        raise EmbeddedPostgresError(
            f"{data} was made by PostgreSQL {existing}, and the installed programs are PostgreSQL {major}, which "
            f"cannot read it. Dump it with PostgreSQL {existing}'s programs (MNEMIC_PG_BINDIR) and restore the dump "
            "into a new data directory, or go back to the former version."
        )


def _initdb_options(major: int, locale: str, *, durable: bool) -> list[str]:
    options = ["-U", "postgres", "-E", "UTF8", "--locale=C", f"--lc-ctype={locale}", "--data-checksums"]
    options += ["--auth-local=trust", "--auth-host=reject", "--no-instructions"]
    if major >= 17:  # rules of Postgres' own: an upgrade of the C library cannot spoil an index
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if not durable:
        options += ["--no-sync"]
    elif major >= 17 and LINUX:  # one system call for the whole file system: 0.27 of the time of file by file
        options += ["--sync-method=syncfs"]
    return options


def _make_empty(directory: Path, account: Account) -> None:
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(0o700)
    account.give(directory)


def _sync_directory(directory: Path) -> None:
    """Make the rename survive a power cut: a lost one would have the next start make a new, empty cluster."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
