"""How Sphinx builds the site; `./hack/docs` runs it. Nothing on the site comes from the network."""

import re
from typing import Any

from gpuruntime import __version__

project = "gpuruntime"
version = release = __version__
copyright = "the authors of gpuruntime, Apache License 2.0"  # noqa: A001 - Sphinx asks for this name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["_site"]

html_theme = "furo"
html_title = f"gpuruntime {__version__}"
html_static_path = ["style"]
html_css_files = ["wide.css"]
pygments_dark_style = "github-dark"
html_copy_source = False
html_show_sphinx = False
html_domain_indices = False

myst_heading_anchors = 3

# Sphinx finds several candidates for `type` and `object` in signatures, which mean the builtins.
suppress_warnings = ["ref.python"]

# Docstrings say `name` where reStructuredText would have ``name``.
default_role = "code"
autodoc_default_options = {
    "members": True,
    "imported-members": True,
    "undoc-members": True,
    "show-inheritance": True,
}
autodoc_member_order = "groupwise"
autodoc_class_signature = "mixed"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
# Else each line of "Attributes:" would be a second description of the field that autodoc lists.
napoleon_use_ivar = True
napoleon_custom_sections = ["Assumptions", "Caveats", "Flow", "Guarantees"]
python_use_unqualified_type_names = True


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _separate_endings)


def _separate_endings(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Markup must end at the end of a word for reStructuredText, and `Plan`s does not."""
    lines[:] = [re.sub(r"(`[^`\s]+`)(?=[a-z])", r"\1\\ ", line) for line in lines]
