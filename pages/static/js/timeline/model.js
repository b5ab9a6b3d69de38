// From the payload (see pages/_ui/payload.py) to what is drawn: seconds in typed arrays, and questions about a moment.

const ORDER = ["unified", "chunked", "disaggregated"];

/** The model of a payload. Times are seconds from the start of the run. Live: schedules whose turn comes later are empty lanes. */
export function decode(payload, live = false) {
  const unit = payload.unit_s ?? 1e-5;
  const lanes = payload.lanes.map((lane) => decodeLane(lane, unit, payload));
  if (live) {
    const missing = payload.planned.filter((name) => !lanes.some((lane) => lane.schedule === name));
    lanes.push(...missing.map((name) => decodeLane(yetToCome(name), unit, payload)));
    lanes.sort((a, b) => ORDER.indexOf(a.schedule) - ORDER.indexOf(b.schedule));
  }
  return {
    span: times(payload.span, unit),
    focus: payload.focus && times(payload.focus, unit),
    lanes,
    texts: payload.texts ?? {},
    end: Math.max(0.001, ...lanes.map((lane) => lane.end)),
    bars: lanes.reduce((sum, lane) => sum + lane.tracks.reduce((n, track) => n + track.bars.n, 0), 0),
  };
}

/** Two payloads of one live run: the lanes and texts of the newer one, and what it left out because we have it. */
export function merge(older, newer) {
  if (!older) return newer;
  const kept = older.lanes.filter((lane) => !newer.lanes.some((other) => other.schedule === lane.schedule));
  const lanes = [...kept, ...newer.lanes].sort((a, b) => ORDER.indexOf(a.schedule) - ORDER.indexOf(b.schedule));
  const texts = { ...older.texts };
  for (const [id, entry] of Object.entries(newer.texts)) {
    texts[id] = { prompt: entry.prompt || texts[id]?.prompt || "", lanes: { ...texts[id]?.lanes, ...entry.lanes } };
  }
  return { ...newer, lanes, texts };
}

/** A lane of a schedule that has not begun: its tracks, empty. */
function yetToCome(schedule) {
  const names = schedule === "disaggregated" ? ["prefill", "transfer", "decode"] : ["prefill", "decode"];
  const worker = (name) => (schedule !== "disaggregated" ? "engine" : name === "transfer" ? "" : name);
  const tracks = names.map((name) => ({ name, worker: worker(name), c: "", gap: [], long: [], prefill: [], decode: [] }));
  return { schedule, complete: true, repeat: 0, now: 0, end: 0, gap: null, first: null, usual: null, tracks, kv: [], ends: [], rows: [] };
}

function decodeLane(lane, unit, payload) {
  const ends = summed(lane.ends, unit);
  const rows = lane.rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    status: row.status,
    arrival: row.arrival === null ? Infinity : row.arrival * unit,
    at: picked(row.tokens, ends),
    stalls: new Set(row.stalls),
    bars: decodeBars(row, unit, payload.categories),
  }));
  const kv = lane.kv.map((series) => ({
    worker: series.worker,
    at: summed(series.at, unit),
    used: Float64Array.from(series.used, (tokens) => tokens * payload.kv_unit),
    capacity: series.capacity,
  }));
  return {
    schedule: lane.schedule,
    complete: lane.complete,
    repeat: lane.repeat,
    now: lane.now * unit,
    end: lane.end * unit,
    gap: lane.gap && times(lane.gap, unit),
    first: lane.first && times(lane.first, unit),
    limit: lane.usual === null ? Infinity : lane.usual * unit * 3,
    tracks: lane.tracks.map((t) => ({ name: t.name, worker: t.worker, bars: decodeBars(t, unit, payload.categories) })),
    rows,
    kv: stacked(kv),
  };
}

function decodeBars(columns, unit, categories) {
  const n = columns.c.length;
  const bars = { n, category: new Array(n), begin: new Float64Array(n), end: new Float64Array(n), prefill: columns.prefill, decode: columns.decode };
  let before = 0;
  for (let i = 0; i < n; i++) {
    const begin = before + columns.gap[i];
    before = begin + columns.long[i];
    bars.category[i] = categories[columns.c.charCodeAt(i) - 48];
    bars.begin[i] = begin * unit;
    bars.end[i] = before * unit;
  }
  return bars;
}

/** Runs [skipped, length, ...] over a list of moments. */
function picked(runs, ends) {
  const found = [];
  let index = 0;
  for (let i = 0; i < runs.length; i += 2) {
    index += runs[i];
    for (let k = 0; k < runs[i + 1]; k++) found.push(ends[index++]);
  }
  return Float64Array.from(found);
}

function summed(deltas, unit) {
  let sum = 0;
  return Float64Array.from(deltas, (delta) => (sum += delta) * unit);
}

function times(span, unit) {
  return span.map((at) => at * unit);
}

/** The KV of all workers of a lane on one list of moments: levels[j][i] is the sum of the last j + 1 workers at at[i]. */
function stacked(series) {
  const at = Float64Array.from([...new Set(series.flatMap((s) => [...s.at]))].sort((a, b) => a - b));
  const levels = [];
  let below = new Float64Array(at.length);
  for (const one of [...series].reverse()) {
    const level = new Float64Array(at.length);
    for (let i = 0, k = 0; i < at.length; i++) {
      while (k < one.at.length && one.at[k] <= at[i]) k++;
      level[i] = below[i] + (k ? one.used[k - 1] : 0);
    }
    levels.push(level);
    below = level;
  }
  return { at, levels, workers: series.map((s) => s.worker).reverse(), peak: Math.max(0, ...below), capacity: series.reduce((sum, s) => sum + s.capacity, 0) };
}

// ---------------------------------------------------------------- questions about a moment

/** How many of the sorted values are at or before t. */
export function countUntil(values, t) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The bar that lasts at t, else -1; within `slack` seconds the nearest one. */
export function barAt(bars, t, slack = 0) {
  let best = -1;
  let distance = slack;
  for (let i = countUntil(bars.begin, t + slack) - 1, seen = 0; i >= 0 && seen < 12; i--, seen++) {
    if (bars.begin[i] <= t && t < bars.end[i]) return i;
    const away = Math.max(bars.begin[i] - t, t - bars.end[i]);
    if (away < distance) [best, distance] = [i, away];
  }
  return best;
}

/** KV in use at t, over all workers of a lane. */
export function kvAt(kv, t) {
  const i = countUntil(kv.at, t);
  return i && kv.levels.length ? kv.levels.at(-1)[i - 1] : 0;
}

/** How long a request has waited for its next token at t, if that is a stall; else 0. */
export function waitedFor(lane, row, t) {
  const k = countUntil(row.at, t);
  if (!k) return 0;
  if (k < row.at.length) return row.stalls.has(k - 1) ? t - row.at[k - 1] : 0;
  // A run that still goes on: the next token has not come yet, and what is known reaches to t.
  const waited = t - row.at[k - 1];
  return row.status === "unfinished" && !lane.complete && waited > lane.limit ? waited : 0;
}

/** Since when no running chat of a live lane has got a token, if that is a stall at t; else null. */
export function openStall(lane, t) {
  if (lane.complete) return null;
  const running = lane.rows.filter((row) => row.kind !== "long" && row.status === "unfinished" && row.at.length);
  if (!running.length) return null;
  const last = Math.max(...running.map((row) => row.at.at(-1)));
  return running.every((row) => waitedFor(lane, row, t)) ? last : null;
}

/** What a lane does at t: the bar of every track, who waits in the queue, how many chats wait for a token. */
export function stateAt(lane, t, glow = 0) {
  const tracks = lane.tracks.map(({ name, bars }) => {
    let i = barAt(bars, t);
    // A transfer is over in a blink: it stays lit for a moment.
    if (i < 0 && name === "transfer") {
      const last = countUntil(bars.begin, t) - 1;
      if (last >= 0 && t - bars.end[last] < glow) i = last;
    }
    return i < 0 ? null : { category: bars.category[i], prefill: bars.prefill[i] ?? 0, decode: bars.decode[i] ?? 0, begin: bars.begin[i] };
  });
  const queue = lane.rows.filter((row) => row.arrival <= t && row.status !== "refused" && !(row.bars.n && row.bars.begin[0] <= t) && !countUntil(row.at, t));
  const waiting = lane.rows.filter((row) => row.kind !== "long" && waitedFor(lane, row, t)).length;
  return { tracks, queue: queue.map((row) => row.kind), waiting };
}

/** Every moment at which a step of any lane begins or ends, sorted. */
export function boundaries(model) {
  const found = new Set();
  for (const lane of model.lanes) {
    for (const { bars } of lane.tracks) {
      for (let i = 0; i < bars.n; i++) found.add(bars.begin[i]).add(bars.end[i]);
    }
  }
  return Float64Array.from(found).sort();
}

/** The first lane of which anything is known. */
export function begun(model) {
  return model.lanes.find((lane) => lane.rows.length);
}

/** The chat whose story says most: the longest gap under the first schedule, and of those about equal the longest text. */
export function tellingChat(model) {
  const lane = begun(model);
  const worst = (row) => {
    let gap = 0;
    for (let i = 1; i < row.at.length; i++) gap = Math.max(gap, row.at[i] - row.at[i - 1]);
    return gap;
  };
  const written = (row) => Math.min(...model.lanes.filter((one) => one.rows.length).map(({ schedule }) => model.texts[row.id]?.lanes[schedule]?.text.length ?? 0));
  const chats = (lane?.rows ?? []).filter((row) => row.kind !== "long").map((row) => ({ row, gap: worst(row) }));
  const top = Math.max(0, ...chats.map(({ gap }) => gap));
  const near = chats.filter(({ gap }) => gap >= top * 0.98).map(({ row }) => row);
  return near.sort((a, b) => written(b) - written(a))[0]?.id ?? null;
}

/** The long prompt that waited longest for its first token, under the first schedule. */
export function slowestLong(model) {
  const longs = (begun(model)?.rows ?? []).filter((row) => row.kind === "long");
  const wait = (row) => (row.at.length ? row.at[0] - row.arrival : 0);
  return longs.sort((a, b) => wait(b) - wait(a))[0]?.id ?? null;
}
