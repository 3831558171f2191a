"""Settings of the documentation: Markdown by MyST, docstrings by numpydoc, theme furo.

Build with ``sphinx-build -W -n docs docs/_build``: every warning is an error, every name must resolve.
"""

from importlib.metadata import version as installed_version

project = "symdebias"
author = "The symdebias developers"
copyright = author  # the name is Sphinx's
release = version = installed_version("symdebias")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"symdebias {version}"

autodoc_member_order = "bysource"
# Names of the field stand in signatures as they are written, not spelled out to their definitions.
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False
# Members are listed by autodoc once; a second table of them would only repeat it.
numpydoc_show_class_members = False
# Types in docstrings are phrases ("array of shape (n, p), float64"), not references.
numpydoc_xref_param_type = False

nitpick_ignore_regex = [
    # Other packages have their own documentation, which is not read at a build.
    ("py:class", r"(numpy|sympy|collections|os|fractions|pathlib|datetime|sklearn)\..*"),
    # What the parts of a correction pass to one another: documented in the source, for developers.
    ("py:class", r"symdebias\.(derivation|codegen|release\.design|correction|records)\b.*"),
    ("py:class", r"symdebias\.transforms\.(exponential\..*|surrogate\.Scores)"),
    ("py:class", r"symdebias\.(_budget\.Limits|_columns\.Table|checks\.sampler\.SamplerCheck)"),
]


def escape_bars(app, what, name, obj, options, lines):
    """Let |x| in a docstring be an absolute value: substitutions, which bars mark in reST, are not used."""
    lines[:] = [line if "``" in line or line.lstrip().startswith(">>>") else line.replace("|", "\\|") for line in lines]


def setup(app):
    """Register the hook, to run after numpydoc has laid the docstrings out."""
    app.connect("autodoc-process-docstring", escape_bars, priority=1000)
