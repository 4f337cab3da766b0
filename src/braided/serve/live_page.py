"""The live page: one document made of the files in page/, and what it may do."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources

#: In their order in the page.
_SCRIPTS = ("nodes.js", "chart.js", "tables.js", "dialogs.js", "card.js", "overview.js", "live.js")


def live_page() -> tuple[bytes, str]:
    """The page, and a policy under which it may run its own script, talk to this service, and nothing else."""
    folder = importlib.resources.files("braided.serve") / "page"
    script = b'"use strict";\n' + b"".join((folder / name).read_bytes() for name in _SCRIPTS)
    page = (folder / "page.html").read_bytes()
    page = page.replace(b"/* page.css */", (folder / "page.css").read_bytes()).replace(b"/* scripts */", script)
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy
