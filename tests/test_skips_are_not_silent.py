"""The rule of tests/conftest.py, run on a small suite of its own: what may be skipped, and where."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

SUITE = {
    "browser/test_page.py": "import pytest\ndef test_page():\n    pytest.skip('no browser')\n",
    "browser/test_axe.py": "import pytest\npytest.importorskip('no_such_module')\ndef test_axe(): pass\n",
    "model/test_cuda.py": "import pytest\n@pytest.mark.gpu\ndef test_cuda(): pass\n",
    "model/test_mac.py": "import pytest\n@pytest.mark.skipif(True, reason='not here')\ndef test_mac(): pass\n",
    "model/test_known.py": "import pytest\n@pytest.mark.xfail\ndef test_known():\n    assert False\n",
}


@pytest.mark.parametrize(
    ("ci", "counts"),
    [
        ("", ["1 failed", "2 skipped", "1 xfailed", "1 error"]),
        ("true", ["1 failed", "1 skipped", "1 xfailed", "2 errors"]),  # skipped by a mark: an error of its set-up
    ],
)
def test_which_skips_fail(tmp_path, ci, counts):
    shutil.copy(HERE / "conftest.py", tmp_path / "conftest.py")
    # A machine with a GPU must see the same, so the suite gets a torch that sees none.
    (tmp_path / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    for name, text in SUITE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers =\n    gpu\n    browser\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--continue-on-collection-errors", "-rfsE"],
        cwd=tmp_path,
        env=dict(os.environ, CI=ci, PYTHONPATH=str(HERE.parent)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    closing = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 1, done.stdout
    assert all(count in closing for count in counts), done.stdout
    assert "gpu: no CUDA device here" in done.stdout
    assert "test_page.py may not skip here, but did: Skipped: no browser" in done.stdout
