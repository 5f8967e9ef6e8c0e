"""What the page says, from the catalogues it is built from."""

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent.parent / "frontend" / "messages"
_CATALOGUES: dict[str, dict[str, Any]] = {
    language: json.loads((_FOLDER / f"{language}.json").read_text("utf-8")) for language in ("en", "de")
}


def word(key: str, language: str = "en", **values: object) -> str:
    """One message, its placeholders filled in."""
    text = _CATALOGUES[language][key]
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text
