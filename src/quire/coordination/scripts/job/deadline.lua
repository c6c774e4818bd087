-- Applies a deadline: pages that still wait for a better reader get the local text they already have. Pages without text
-- are read the quick way from now on: their units are taken from their workers and issued again.
-- Does nothing before the deadline. Idempotent.
-- ARGV  now ms
-- Answers {pages that fell back, unit …}, or {-1} if there was nothing to apply.
local now = tonumber(ARGV[1])
local f = redis.call('HMGET', JOB, 'status', 'deadline_at', 'timed_out', 'epoch')
if f[1] ~= 'processing' or not f[2] or tonumber(f[2]) > now or f[3] == '1' then return {-1} end
redis.call('HSET', JOB, 'timed_out', '1')
local epoch, fell, seen, units = tonumber(f[4]), 0, {}, {}
local all = redis.call('HGETALL', PAGES)
for i = 1, #all, 2 do
  local packed = cjson.decode(all[i + 1])
  if not terminal(packed.st) then
    if packed.ref then
      -- A page that has a source already was read by OCR while it waited.
      if packed.src then
        packed.why = packed.why or {}
        packed.why[#packed.why + 1] = 'deadline'
      end
      packed.st, packed.src, packed.t1 = 'completed', packed.src or 'mupdf_timeout_fallback', now / 1000
      packed.ob = nil
      redis.call('HSET', PAGES, all[i], cjson.encode(packed))
      redis.call('ZREM', SLOW, all[i])
      if redis.call('HDEL', WORK, 'p' .. all[i]) == 1 then redis.call('HINCRBY', JOB, 'slow_out', -1) end
      fell = fell + 1
      seen[#seen + 1] = {number = tonumber(all[i]), status = packed.st, source = packed.src}
    end
  end
end
redis.call('HINCRBY', JOB, 'done', fell)
local work = redis.call('HGETALL', WORK)
for i = 1, #work, 2 do
  local entry = cjson.decode(work[i + 1])
  if work[i] ~= 'merge' and work[i] ~= 'split' and work[i] ~= 'download' and entry.o ~= '' then
    entry.o, entry.tk, entry.i = '', nil, now
    redis.call('HSET', WORK, work[i], cjson.encode(entry))
    units[#units + 1] = work[i]
  end
end
refill(units, epoch, now)
redis.call('PEXPIRE', WORK, redis.call('PTTL', JOB))
if fell > 0 then
  local g = redis.call('HMGET', JOB, 'done', 'failed', 'total')
  emit('pages', {pages = seen, progress = progress(), pages_completed = tonumber(g[1]),
    pages_failed = tonumber(g[2]), total_pages = tonumber(g[3]), at = now / 1000})
end
return {fell, unpack(units)}
