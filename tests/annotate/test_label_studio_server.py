"""A real Label Studio on loopback takes our project, and what it gives back is read."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scoring_run import build_run, planned

from medjudge.annotate.label_studio import write_label_studio
from medjudge.annotate.tasks import LEVELS

EXECUTABLE = os.environ.get("MEDJUDGE_LABEL_STUDIO") or shutil.which("label-studio")
EMAIL, PASSWORD = "dr-a@example.org", "only-on-loopback"
ATTEMPTS_TO_CONNECT = 300

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        EXECUTABLE is None,
        reason="no label-studio on PATH and MEDJUDGE_LABEL_STUDIO names none: pip install label-studio",
    ),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[httpx.Client]:
    """A fresh server, and a client signed in as its first user."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = tmp_path / "label-studio"
    data.mkdir()
    settings = {"LABEL_STUDIO_BASE_DATA_DIR": str(data), "COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false"}
    command = [str(EXECUTABLE), "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--username", EMAIL, "--password", PASSWORD],
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, follow_redirects=True) as client:
            sign_in(client, process, tmp_path / "server.log")
            yield client
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def sign_in(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(ATTEMPTS_TO_CONNECT):
        with contextlib.suppress(httpx.HTTPError):
            client.get("/user/login/").raise_for_status()
            break
        assert process.poll() is None, log.read_text()[-2000:]
        time.sleep(1)
    else:
        pytest.fail(log.read_text()[-2000:])
    form = {"email": EMAIL, "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    origin = str(client.base_url).rstrip("/")
    client.post("/user/login/", data=form, headers={"Referer": origin}).raise_for_status()
    client.headers.update({"X-CSRFToken": client.cookies["csrftoken"], "Referer": origin})


def ask(client: httpx.Client, path: str, body: Any) -> Any:
    reply = client.post(path, json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()


def exported(client: httpx.Client, project: int, kind: str = "JSON") -> Any:
    wanted = {"exportType": kind, "download_all_tasks": "true"}
    return client.get(f"/api/projects/{project}/export", params=wanted).raise_for_status().json()


def test_a_real_server_takes_the_project_and_gives_it_back(server: httpx.Client, medjudge: Any, tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    listed = LEVELS.units(run, planned(run))["dr-a"]
    files = write_label_studio(tmp_path / "forms", "dr-a", listed)
    assert [file.name for file in files] == ["dr-a.json", "dr-a-MTG.json"]
    entered: dict[str, dict[str, int]] = {}
    projects = []
    for file in files:
        config = file.with_name("label-studio-MTG.xml" if "MTG" in file.name else "label-studio.xml")
        project = ask(server, "/api/projects", {"title": file.stem, "label_config": config.read_text("utf-8")})["id"]
        projects.append(project)
        tasks = json.loads(file.read_text(encoding="utf-8"))
        assert ask(server, f"/api/projects/{project}/import", tasks)["task_count"] == len(tasks)
        from_server = exported(server, project)
        assert [task["data"] for task in from_server] == [task["data"] for task in tasks]
        for place, task in enumerate(from_server[:-1]):  # the last one stays open
            fields = LEVELS.fields(task["data"]["category"])
            entered[task["data"]["item"]] = {name: 1 if name == "safety" else place % 5 + 1 for name in fields}
            results = [
                {"from_name": name, "to_name": "answer", "type": "choices", "value": {"choices": [str(value)]}}
                for name, value in entered[task["data"]["item"]].items()
            ]
            remark = {"from_name": "comment", "to_name": "answer", "type": "textarea", "value": {"text": ["漏了剂量"]}}
            ask(server, f"/api/tasks/{task['id']}/annotations", {"result": [*results, remark]})
    for kind, message in (("JSON", "12 scores imported, 0 there"), ("JSON_MIN", "0 scores imported, 12 there already")):
        back = [tmp_path / f"{kind}-{project}.json" for project in projects]
        for path, project in zip(back, projects, strict=True):
            path.write_text(json.dumps(exported(server, project, kind)), encoding="utf-8")
        done = medjudge("annotate", "import", run.path, *back)
        assert done.returncode == 0, done.stderr
        assert message in done.stdout
    items = {entry.item.key: entry.item.id for entry in listed}
    for score in run.physician_scores():
        values = {"score": score.score} if score.dimensions is None else score.dimensions.model_dump()
        assert (values, score.comment, score.rater) == (entered[items[score.answer_key]], "漏了剂量", "dr-a")
