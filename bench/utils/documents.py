"""Where a reader of a message finds a document."""

from functools import cache
from importlib.metadata import distributions


@cache
def address() -> str:
    """The address of the site, `Documentation` in [project.urls] of pyproject.toml; "" without."""
    for package in distributions(name="sentbench"):
        urls = package.metadata.get_all("Project-URL", ())
        return dict(url.split(", ") for url in urls).get("Documentation", "").rstrip("/")
    return ""  # not installed


def document(name: str, section: str = "") -> str:
    """A document such as `reference/rule`, on the site or, without one, as a file of the
    package."""
    path = f"{address()}/{name}.html" if address() else f"bench/docs/{name}.md"
    return f"{path}#{section}" if section else path
