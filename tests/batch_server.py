"""OpenAI's files and batches on loopback: validates what it is given as they do, and answers when the test says so."""

import json
import random
import urllib.parse
from collections.abc import Callable
from email import message_from_bytes
from typing import Any

from chat_server import Handler, LoopbackServer

Result = dict[str, Any] | None
"""Of one request: {"body": …} or {"status": …, "body": …}; None for one that ran out of time."""


class BatchServer(LoopbackServer):
    """Keeps files and batches; `lose_next_reply` makes a batch and hangs up without a word of it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.lose_next_reply = False
        outer = self

        class Batches(Handler):
            def do_GET(self) -> None:
                url = urllib.parse.urlparse(self.path)
                query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
                parts = url.path.removeprefix("/v1/").split("/")
                if parts == ["batches"]:
                    self._json(outer._list(query.get("after"), int(query.get("limit", "20"))))
                elif parts[0] == "batches" and parts[1] in outer.batches:
                    self._json(outer.batches[parts[1]])
                elif parts[0] == "files" and parts[2:] == ["content"] and parts[1] in outer.files:
                    self._send(outer.files[parts[1]], "application/octet-stream")
                else:
                    self._json({"error": {"message": f"no {self.path}"}}, 404)

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/files":
                    self._json(outer._upload(data, self.headers["Content-Type"]))
                elif self.path == "/v1/batches":
                    batch = outer._create(json.loads(data))
                    if outer.lose_next_reply:
                        outer.lose_next_reply = False
                        self.close_connection = True
                        self.connection.close()
                        return
                    self._json(batch)
                else:
                    self._json({"error": {"message": f"no {self.path}"}}, 404)

            def _json(self, value: Any, status: int = 200) -> None:
                text = json.dumps(value).replace("THE AUTHORIZATION", self.headers["Authorization"])
                self._send(text.encode(), "application/json", status)

            def _send(self, data: bytes, kind: str, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if data.startswith(b"\x1f\x8b"):
                    self.send_header("Content-Encoding", "gzip")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        super().__init__(Batches)

    def requests(self, batch_id: str) -> list[dict[str, Any]]:
        """The lines of a batch's input file."""
        return [json.loads(line) for line in self.files[self.batches[batch_id]["input_file_id"]].decode().splitlines()]

    def finish(self, batch_id: str, result: Callable[[dict[str, Any]], Result]) -> None:
        """Answers every line of a batch, in another order than asked; lines that ran out of time expire the batch."""
        lines: dict[str, list[dict[str, Any]]] = {"output_file_id": [], "error_file_id": []}
        status = "completed"
        for line in self.requests(batch_id):
            made: dict[str, Any] = {"id": "r", "custom_id": line["custom_id"], "response": None, "error": None}
            if (reply := result(line["body"])) is None:
                status = "expired"
                made["error"] = {"code": "batch_expired", "message": "This request could not be executed in time."}
            else:
                made["response"] = {"status_code": reply.get("status", 200), "request_id": "r", "body": reply["body"]}
            right = reply is not None and made["response"]["status_code"] == 200
            lines["output_file_id" if right else "error_file_id"].append(made)
        batch = self.batches[batch_id]
        for field, listed in lines.items():
            random.Random(0).shuffle(listed)
            if listed:
                batch[field] = self._store("".join(json.dumps(line) + "\n" for line in listed).encode())
        batch["status"] = status
        batch["request_counts"] |= {"completed": len(lines["output_file_id"]), "failed": len(lines["error_file_id"])}

    def _store(self, data: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = data
        return name

    def _upload(self, data: bytes, kind: str) -> dict[str, Any]:
        form = message_from_bytes(f"Content-Type: {kind}\n\n".encode() + data)
        fields = {
            part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
            for part in form.get_payload()
        }
        assert fields["purpose"] == b"batch"
        described = {"bytes": len(fields["file"]), "created_at": 0, "filename": "f.jsonl", "purpose": "batch"}
        return {"id": self._store(fields["file"]), "object": "file", "status": "processed", **described}

    def _create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        assert wanted["completion_window"] == "24h"
        assert all(len(key) <= 64 and len(value) <= 512 for key, value in wanted["metadata"].items())
        counts = {"total": 0, "completed": 0, "failed": 0}
        batch = {"id": f"batch_{len(self.batches)}", "object": "batch", "created_at": len(self.batches), **wanted}
        batch |= {"status": "validating", "request_counts": counts}
        self.batches[str(batch["id"])] = batch
        lines = self.requests(str(batch["id"]))
        counts["total"] = len(lines)
        ids = [line["custom_id"] for line in lines]
        models = {line["body"]["model"] for line in lines}
        right = all(line["method"] == "POST" and line["url"] == wanted["endpoint"] for line in lines)
        if not (right and len(set(ids)) == len(ids) <= 50_000 and len(models) == 1 and max(map(len, ids)) <= 64):
            batch["status"] = "failed"
            batch["errors"] = {"object": "list", "data": [{"code": "invalid", "message": "the file is wrong"}]}
        return batch

    def _list(self, after: str | None, limit: int) -> dict[str, Any]:
        ids = list(reversed(self.batches))
        start = ids.index(after) + 1 if after else 0
        page = ids[start : start + min(limit, 2)]  # small pages, so that a listing takes several
        ends = {"first_id": page[0], "last_id": page[-1]} if page else {}
        data = [self.batches[batch_id] for batch_id in page]
        return {"object": "list", "data": data, "has_more": start + len(page) < len(ids), **ends}
