-- A unit of pages is finished. First result wins; a page that already has one only counts as late.
-- ARGV  unit, epoch, now ms, tokens in, tokens out, cost in micro-dollars,
--       then for each page: number, outcome (d done, f failed, s must be read one by one), packed record
-- Answers {accepted pages, deadline ms or 0, unit, unit …}: the units to queue.
local unit, epoch, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local pages = (#ARGV - 6) / 3
if redis.call('HGET', JOB, 'status') ~= 'processing' or not wanted(unit, epoch) then
  count_late(pages)
  return {0, 0}
end
redis.call('HDEL', WORK, unit)
local done, failed, slow, late, seen = 0, 0, 0, 0, {}
local timed_out = redis.call('HGET', JOB, 'timed_out') == '1'
local closed = redis.call('HGET', JOB, 'closed') == ARGV[2]
for i = 7, #ARGV, 3 do
  local number, outcome, record = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local old = redis.call('HGET', PAGES, number)
  if old and terminal(cjson.decode(old).st) then
    late = late + 1
  else
    if outcome == 's' and timed_out then
      -- Too late to wait for a better reader: the local text is the result.
      local packed = cjson.decode(record)
      packed.st, packed.src, packed.t1 = 'completed', 'mupdf_timeout_fallback', now / 1000
      record, outcome = cjson.encode(packed), 'd'
    elseif outcome == 's' and closed then
      record, outcome = given_up(cjson.decode(record), now)
    end
    redis.call('HSET', PAGES, number, record)
    if outcome == 'd' then done = done + 1
    elseif outcome == 'f' then failed = failed + 1
    else
      slow = slow + 1
      redis.call('ZADD', SLOW, number, number)
    end
    local packed = cjson.decode(record)
    -- Fields that the record does not have are absent from the event.
    seen[#seen + 1] = {number = tonumber(number), status = packed.st, source = packed.src, grade = packed.gr,
      confidence = packed.cf, words_missing = packed.wm, ungrounded = packed.ug, ungrounded_numbers = packed.un}
  end
end
if string.sub(unit, 1, 1) == 'c' then
  redis.call('HINCRBY', JOB, 'out', -pages)
else
  redis.call('HINCRBY', JOB, 'slow_out', -1)
end
redis.call('HINCRBY', JOB, 'done', done)
redis.call('HINCRBY', JOB, 'failed', failed)
if late > 0 then redis.call('HINCRBY', JOB, 'late', late) end
if tonumber(ARGV[4]) > 0 then redis.call('HINCRBY', JOB, 'tokens_in', ARGV[4]) end
if tonumber(ARGV[5]) > 0 then redis.call('HINCRBY', JOB, 'tokens_out', ARGV[5]) end
if tonumber(ARGV[6]) > 0 then redis.call('HINCRBY', JOB, 'cost_micro', ARGV[6]) end
if slow > 0 then
  redis.call('HINCRBY', JOB, 'slow_total', slow)
  set_deadline()
end
local units = {}
refill(units, epoch, now)
if string.sub(unit, 1, 1) == 'c' and redis.call('HGET', JOB, 'follow') == '1' then
  -- Every page has its local text and some wait for a better reader: the vault may file the text that is there.
  local f = redis.call('HMGET', JOB, 'total', 'next', 'out', 'done', 'failed')
  local total = tonumber(f[1])
  if tonumber(f[2]) >= total and tonumber(f[3]) == 0 and tonumber(f[4]) + tonumber(f[5]) < total then
    add_unit(units, 'vault', epoch, now)
  end
end
local ttl = redis.call('PTTL', JOB)
redis.call('PEXPIRE', PAGES, ttl)
redis.call('PEXPIRE', WORK, ttl)
if slow > 0 then redis.call('PEXPIRE', SLOW, ttl) end
if #seen > 0 then
  local f = redis.call('HMGET', JOB, 'done', 'failed', 'total')
  emit('pages', {pages = seen, progress = progress(), pages_completed = tonumber(f[1]),
    pages_failed = tonumber(f[2]), total_pages = tonumber(f[3]), at = now / 1000})
end
local deadline = 0
if slow > 0 then deadline = num('deadline_at') end
return {done + failed + slow, deadline, unpack(units)}
