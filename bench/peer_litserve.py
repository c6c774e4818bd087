"""The same service with LitServe. Run as `peer_litserve.py litserve BACKEND_URL PORT`, in an environment of its own."""

from __future__ import annotations

import base64
import json
import sys
import urllib.request
from typing import Any

import litserve

BATCH, WAIT_S, SLOTS = 32, 0.010, 4


class Api(litserve.LitAPI):  # type: ignore[misc]
    def setup(self, device: str) -> None:
        pass

    def decode_request(self, request: dict[str, str]) -> str:
        base64.b64decode(request["image_data"], validate=True)
        return request["image_data"]

    def batch(self, inputs: list[str]) -> list[str]:
        return inputs

    def predict(self, inputs: list[str]) -> list[Any]:
        names = [{"filename": f"i{place}", "image_data": one} for place, one in enumerate(inputs)]
        request = urllib.request.Request(
            f"{sys.argv[2]}/parse-batch", json.dumps({"images": names}, separators=(",", ":")).encode()
        )
        with urllib.request.urlopen(request) as answer:
            found = {one["filename"]: one for one in json.load(answer)["results"]}
        return [found[f"i{place}"] for place in range(len(inputs))]

    def unbatch(self, output: list[Any]) -> list[Any]:
        return output

    def encode_response(self, output: Any) -> Any:
        return output


if __name__ == "__main__":
    api = Api(max_batch_size=BATCH, batch_timeout=WAIT_S, api_path="/parse")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=SLOTS, timeout=120)
    server.run(port=int(sys.argv[3]), generate_client_file=False, log_level="warning", num_api_servers=1)
