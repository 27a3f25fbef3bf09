"""Sphinx builds the documentation from Markdown (MyST) and from the code itself."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent / "src"))

from sherd import __version__  # noqa: E402 - the path must be set first

project = "Sherd"
author = "The Sherd developers"
project_copyright = author
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sherd_reference"]
exclude_patterns = ["_build", "_ext"]
templates_path: list[str] = []
source_suffix = {".md": "markdown"}

# Headings down to the third level can be linked to, as on the pages of a code host.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
add_module_names = False

html_theme = "furo"
html_title = f"Sherd {release}"
html_copy_source = False
# No page asks another host for anything: no fonts, scripts or formulas from elsewhere.
html_static_path: list[str] = []
