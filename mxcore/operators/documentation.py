"""The text of an operator's documentation, put together from its parts."""

from __future__ import annotations


def documentation(
    summary: str, parameters: str, returns: str, example: str | None = None, *, raises: str | None = None
) -> str:
    """Return documentation in NumPy's sections.

    Parameters
    ----------
    summary, parameters, returns : str
    example : str, optional
        Lines of a doctest, in which ``mx`` is known.
    raises : str, optional
    """
    sections = {"Parameters": parameters, "Returns": returns}
    if raises is not None:
        sections["Raises"] = raises
    if example is not None:
        sections["Examples"] = f">>> import mxcore as mx\n{example}"
    return summary + "".join(f"\n\n{name}\n{'-' * len(name)}\n{text}" for name, text in sections.items()) + "\n"
