-- Shared by every job script (put in front of it when loaded). All five keys of a job are in one hash slot.
--   KEYS[1] job:{id}          hash    the main record, split/merge/download fields included
--   KEYS[2] job:{id}:pages    hash    page number -> packed record (JSON; "st" is its status)
--   KEYS[3] job:{id}:work     hash    unit -> {e epoch, o owner, tk token, s starts, f failures, i issued ms, nb not before ms}
--   KEYS[4] job:{id}:slow     zset    pages that wait to be read one by one, by number
--   KEYS[5] job:{id}:events   stream  t type, d data (JSON); also the name of the pub/sub channel
local JOB, PAGES, WORK, SLOW, EVENTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local EVENTS_KEPT = 1000
local KEPT_AFTER_END_MS = 3600000

local function num(field)
  return tonumber(redis.call('HGET', JOB, field)) or 0
end

local function terminal(status)
  return status == 'completed' or status == 'failed' or status == 'cancelled'
end

local function emit(kind, data)
  local id = redis.call('XADD', EVENTS, 'MAXLEN', '~', EVENTS_KEPT, '*', 't', kind, 'd', cjson.encode(data))
  redis.call('PUBLISH', EVENTS, id)
end

local function add_unit(units, unit, epoch, now)
  redis.call('HSET', WORK, unit, cjson.encode({e = epoch, o = '', s = 0, f = 0, i = now, nb = 0}))
  units[#units + 1] = unit
end

local function progress()
  local f = redis.call('HMGET', JOB, 'status', 'split.status', 'done', 'failed', 'total')
  if f[1] == 'completed' then return 100 end
  local total = tonumber(f[5]) or 0
  local share = 0
  if total > 0 then
    share = math.floor(80 * ((tonumber(f[3]) or 0) + (tonumber(f[4]) or 0)) / total)
  end
  return (f[2] == 'completed' and 10 or 0) + share
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
local function refill(units, epoch, now)
  local f = redis.call('HMGET', JOB, 'total', 'next', 'out', 'chunk', 'window', 'slow_out', 'done', 'failed',
    'merge.status', 'split.status')
  if f[10] ~= 'completed' then return end
  local total, nxt, out = tonumber(f[1]) or 0, tonumber(f[2]) or 0, tonumber(f[3]) or 0
  local chunk, window = tonumber(f[4]) or 1, tonumber(f[5]) or 1
  local slow_out = tonumber(f[6]) or 0
  while nxt < total and out < window do
    local last = math.min(nxt + chunk, total) - 1
    add_unit(units, 'c' .. nxt .. '-' .. last, epoch, now)
    out = out + (last - nxt + 1)
    nxt = last + 1
  end
  while slow_out < window do
    local popped = redis.call('ZPOPMIN', SLOW)
    if #popped == 0 then break end
    add_unit(units, 'p' .. popped[1], epoch, now)
    slow_out = slow_out + 1
  end
  redis.call('HSET', JOB, 'next', nxt, 'out', out, 'slow_out', slow_out)
  local finished = (tonumber(f[7]) or 0) + (tonumber(f[8]) or 0)
  if total > 0 and finished >= total and (f[9] == false or f[9] == '') then
    redis.call('HSET', JOB, 'merge.status', 'queued', 'merge.created_at', now)
    add_unit(units, 'merge', epoch, now)
  end
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
