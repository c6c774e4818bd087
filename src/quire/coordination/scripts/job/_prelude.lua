-- Shared by every job script (put in front of it when loaded). All five keys of a job are in one hash slot.
--   KEYS[1] job:{id}          hash    the main record, split/merge/download fields included
--   KEYS[2] job:{id}:pages    hash    page number -> packed record (JSON; "st" is its status)
--   KEYS[3] job:{id}:work     hash    unit -> {e epoch, o owner, tk token, s starts, f failures, i issued ms, nb not before ms,
--                             w waits for a plane, sp 1 if it was tried before}
--   KEYS[4] job:{id}:slow     zset    pages that wait to be read one by one, by number
--   KEYS[5] job:{id}:events   stream  t type, d data (JSON); also the name of the pub/sub channel
local JOB, PAGES, WORK, SLOW, EVENTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local EVENTS_KEPT = 1000
local KEPT_AFTER_END_MS = 3600000
local ARGUMENTS_AT_ONCE = 2000 -- Lua passes no more than some thousands in one call
local COUNTS = {'total', 'next', 'out', 'chunk', 'window', 'slow_out', 'done', 'failed', 'merge.status', 'split.status'}

local function num(field)
  return tonumber(redis.call('HGET', JOB, field)) or 0
end

local function terminal(status)
  return status == 'completed' or status == 'failed' or status == 'cancelled'
end

local function emit(kind, data)
  redis.call('XADD', EVENTS, 'MAXLEN', '~', EVENTS_KEPT, '*', 't', kind, 'd', cjson.encode(data))
  redis.call('PUBLISH', EVENTS, kind)
end

-- The fields of the record with these names, as a table.
local function read_fields(names)
  local found, values = {}, redis.call('HMGET', JOB, unpack(names))
  for i, name in ipairs(names) do found[name] = values[i] or nil end
  return found
end

-- One command for a flat list of arguments, or a few for a long one.
local function call_with(command, key, args)
  for first = 1, #args, ARGUMENTS_AT_ONCE do
    redis.call(command, key, unpack(args, first, math.min(first + ARGUMENTS_AT_ONCE - 1, #args)))
  end
end

local function add_units(units, added, epoch, now)
  local entry, args = cjson.encode({e = epoch, o = '', s = 0, f = 0, i = now, nb = 0}), {}
  for i, unit in ipairs(added) do
    args[2 * i - 1], args[2 * i] = unit, entry
    units[#units + 1] = unit
  end
  call_with('HSET', WORK, args)
end

local function add_unit(units, unit, epoch, now)
  add_units(units, {unit}, epoch, now)
end

local function progress_of(f)
  local total, share = tonumber(f.total) or 0, 0
  if total > 0 then
    share = math.floor(80 * ((tonumber(f.done) or 0) + (tonumber(f.failed) or 0)) / total)
  end
  return (f['split.status'] == 'completed' and 10 or 0) + share
end

local function progress()
  local f = read_fields({'status', 'split.status', 'done', 'failed', 'total'})
  return f.status == 'completed' and 100 or progress_of(f)
end

local function emit_status(now)
  local f = redis.call('HMGET', JOB, 'status', 'done', 'failed', 'total', 'error')
  local data = {status = f[1], progress = progress(), pages_completed = tonumber(f[2]) or 0,
    pages_failed = tonumber(f[3]) or 0, total_pages = tonumber(f[4]) or 0, at = now / 1000}
  if f[5] and f[5] ~= '' then data.error = cjson.decode(f[5]) end
  emit('status', data)
end

-- A page that needs a slow reader gives the document a deadline: the longer of the document's own time and the time
-- for each such page, from when processing started. A timeout that the caller asked for is never extended.
local function set_deadline()
  local f = redis.call('HMGET', JOB, 'started_at', 't.asked', 't.document', 't.page', 'slow_total', 'timed_out')
  local started = tonumber(f[1])
  if not started or f[6] == '1' then return end
  local asked = tonumber(f[2]) or 0
  local slow = tonumber(f[5]) or 0
  if asked > 0 then
    redis.call('HSET', JOB, 'deadline_at', started + asked)
  elseif slow > 0 then
    local allowed = math.max(tonumber(f[3]) or 0, (tonumber(f[4]) or 0) * slow)
    redis.call('HSET', JOB, 'deadline_at', started + allowed)
  end
end

-- Issues the next units: never more pages of one document than its window; the merge when all pages have ended.
-- `f` has the fields COUNTS. Returns the fields that have changed, as field, value …; the caller writes them.
local function next_units(f, units, epoch, now)
  if f['split.status'] ~= 'completed' then return {'out', f.out or 0, 'slow_out', f.slow_out or 0} end
  local total, nxt, out = tonumber(f.total) or 0, tonumber(f.next) or 0, tonumber(f.out) or 0
  local chunk, window = tonumber(f.chunk) or 1, tonumber(f.window) or 1
  local slow_out, added = tonumber(f.slow_out) or 0, {}
  while nxt < total and out < window do
    local last = math.min(nxt + chunk, total) - 1
    added[#added + 1] = 'c' .. nxt .. '-' .. last
    out = out + (last - nxt + 1)
    nxt = last + 1
  end
  if slow_out < window then
    local popped = redis.call('ZPOPMIN', SLOW, window - slow_out)
    for i = 1, #popped, 2 do added[#added + 1] = 'p' .. popped[i] end
    slow_out = slow_out + #popped / 2
  end
  local changed = {'next', nxt, 'out', out, 'slow_out', slow_out}
  local finished = (tonumber(f.done) or 0) + (tonumber(f.failed) or 0)
  if total > 0 and finished >= total and (f['merge.status'] or '') == '' then
    added[#added + 1] = 'merge'
    for _, part in ipairs({'merge.status', 'queued', 'merge.created_at', now}) do changed[#changed + 1] = part end
  end
  add_units(units, added, epoch, now)
  f.next, f.out, f.slow_out = nxt, out, slow_out
  return changed
end

local function refill(units, epoch, now)
  call_with('HSET', JOB, next_units(read_fields(COUNTS), units, epoch, now))
end

-- Ends the job: deletes what only running work needs; the record stays until its TTL.
local function finish(units, status, now, ttl_ms)
  redis.call('HSET', JOB, 'status', status, 'completed_at', now)
  redis.call('DEL', WORK, SLOW)
  if status == 'completed' and redis.call('HEXISTS', JOB, 'export') == 1 then
    add_unit(units, 'export', num('epoch'), now)
  end
  if redis.call('HGET', JOB, 'callback') == '1' then
    add_unit(units, 'callback', num('epoch'), now)
  end
  if redis.call('HGET', JOB, 'follow') == '1' then
    add_unit(units, 'vault', num('epoch'), now)
  end
  redis.call('PEXPIRE', WORK, ttl_ms)
  redis.call('PEXPIRE', JOB, ttl_ms)
  emit_status(now)
  -- A finished job keeps one small record. The pages of a cancelled one are kept an hour for a retry.
  redis.call('XTRIM', EVENTS, 'MAXLEN', 1)
  redis.call('PEXPIRE', EVENTS, math.min(ttl_ms, KEPT_AFTER_END_MS))
  redis.call('PEXPIRE', PAGES, math.min(ttl_ms, KEPT_AFTER_END_MS))
end

-- Ends a page whose better reader will not answer: its local text is the result, if it has any.
-- Returns the packed record and its outcome, d or f.
local function given_up(packed, now)
  packed.t1, packed.ob = now / 1000, nil
  packed.why = packed.why or {}
  packed.why[#packed.why + 1] = 'given_up'
  if (packed.w or 0) > 0 then
    packed.st, packed.src = 'completed', packed.src or 'mupdf_fallback'
    return cjson.encode(packed), 'd'
  end
  packed.st, packed.ref, packed.off, packed.len = 'failed', nil, nil, nil
  packed.err = {code = 'page_failed', retryable = false,
    error = 'The page has no text of its own, and the external dispatcher ended the job without reading it.'}
  return cjson.encode(packed), 'f'
end

local function count_late(n)
  if redis.call('EXISTS', JOB) == 1 then redis.call('HINCRBY', JOB, 'late', n) end
end

-- The unit's entry if it is still open in this epoch, else nil.
local function wanted(unit, epoch)
  local raw = redis.call('HGET', WORK, unit)
  if not raw then return nil end
  local entry = cjson.decode(raw)
  if entry.e ~= epoch then return nil end
  return entry
end
