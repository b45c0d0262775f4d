"""Read the address of a database, and never repeat it: an address that cannot be read may hold a part of a password.

A reserved character in a password that is not percent-encoded ends the password early. libpq then takes the rest for
the host, the port or the database, and prints it when it finds nothing of that name. So this module checks each part
before anything connects. A refusal names the kind of part that is wrong, and does not quote it.
"""

import re
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from orchestrator.errors import ConfigError

FORM = (
    "write postgresql://user:password@host:5432/database, and percent-encode what is reserved in a user, a password or "
    "a name: %40 for @, %2F for /, %3A for :, %23 for #, %3F for ?, %25 for %, %20 for a space"
)
# A name, an address, or a socket (in a folder, or abstract).
HOST = re.compile(r"[\w.:%-]*|[/@][^@]*")
PORT = re.compile(r"\s*\d*\s*")
# User and password, the hosts, the database: libpq splits a URL in this way.
PLACES = re.compile(r"([^@/]*@)?([^/?]*)(?:/([^?]*))?")
# libpq's own variables, and the parts that they stand for.
VARIABLES = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE"}


def read(text: str, *, source: str) -> dict[str, Any]:
    """Return the parameters of a URL (SQLAlchemy's postgresql+driver:// too) or of libpq's key=value.

    `source` names the setting or argument in a refusal.
    """
    given = parameters(text)
    fault = fault_of(text, given)
    if given is None or fault is not None:
        raise ConfigError(f"{source} cannot be read: {fault}; {FORM}")
    return given


def fault(text: str) -> str | None:
    """Return why a text is no address of a database; None if it is one."""
    found = fault_of(text, parameters(text))
    return None if found is None else f"cannot be read: {found}; {FORM}"


def check_environment(given: dict[str, Any]) -> None:
    """Refuse a variable of libpq that stands for a missing part, and cannot be one."""
    for option in pq.Conninfo.get_defaults():
        part = option.keyword.decode()
        if part in VARIABLES and given.get(part) is None and option.val is not None:
            wrong = fault_of_parts({part: option.val.decode(errors="replace")})
            if wrong is not None:
                raise ConfigError(f"{VARIABLES[part]} cannot be read: {wrong}")


def parameters(text: str) -> dict[str, Any] | None:
    """Return what libpq reads; None if it cannot. Its error quotes the text, so it is not passed on."""
    scheme, separator, rest = text.partition("://")
    if separator and "+" in scheme:
        text = f"{scheme.partition('+')[0]}://{rest}"
    try:
        return conninfo_to_dict(text)
    except (psycopg.ProgrammingError, UnicodeEncodeError):
        return None


def fault_of(text: str, given: dict[str, Any] | None) -> str | None:
    if given is None:
        return "it is no URL of PostgreSQL, and no list of key=value"
    return fault_of_parts(given) or fault_of_places(text)


def fault_of_parts(given: dict[str, Any]) -> str | None:
    """Check the parts that were read."""
    hosts = str(given.get("host") or "").split(",")
    # With an address, the host is only compared with the server's certificate.
    if not all(map(HOST.fullmatch, hosts)) or not (
        given.get("hostaddr") or all(map(may_be_looked_up, hosts))
    ):
        return "the host is no name and no address"
    if not all(map(PORT.fullmatch, str(given.get("port") or "").split(","))):
        return "the port is no number"
    if "://" in str(given.get("dbname") or ""):
        return "the name of the database is a URL"
    return None


def may_be_looked_up(host: str) -> bool:
    """Tell whether Python would try: each part of a name between its dots has 1 to 63 characters."""
    try:
        return host.startswith(("/", "@")) or host.encode("idna") is not None
    except UnicodeError:
        return False


def fault_of_places(text: str) -> str | None:
    """Check a URL as it is written: the only unencoded @ is the one before the host."""
    _, separator, rest = text.partition("://")
    if not separator:
        return None
    user, hosts, path = PLACES.match(rest).groups(default="")  # type: ignore[union-attr]  # it matches any text
    if "@" in path or (not user and hosts.endswith(":")):
        return "a / stands before the @ that ends the password"
    return None
