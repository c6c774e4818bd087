-- A unit of pages is finished. First result wins; a page that already has one only counts as late.
-- ARGV  unit, epoch, now ms, tokens in, tokens out, cost in micro-dollars, number of fields to answer, those fields,
--       then for each page: number, outcome (d done, f failed, s must be read one by one), packed record
-- Answers {accepted pages, deadline ms or 0, {value of each field} if page units were issued, unit, unit …}: the units to queue.
local unit, epoch, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local first = 8 + tonumber(ARGV[7])
local pages, is_chunk = (#ARGV - first + 1) / 3, string.sub(unit, 1, 1) == 'c'
local names = {'status', 'timed_out', 'closed', 'late', 'tokens_in', 'tokens_out', 'cost_micro', 'slow_total', 'follow',
  unpack(COUNTS)}
for i = 8, first - 1 do names[#names + 1] = ARGV[i] end
local f = read_fields(names)
if f.status ~= 'processing' or not wanted(unit, epoch) then
  count_late(pages)
  return {0, 0, {}}
end
local numbers = {}
for i = first, #ARGV, 3 do numbers[#numbers + 1] = ARGV[i] end
local known, has_old = {}, true
for i, old in ipairs(redis.call('HMGET', PAGES, unpack(numbers))) do
  known[numbers[i]] = old
  has_old = has_old and old
end
local done, failed, late, slow, records, seen = 0, 0, 0, {}, {}, {}
for i = first, #ARGV, 3 do
  local number, outcome, record = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local old = known[number]
  if old and terminal(cjson.decode(old).st) then
    late = late + 1
  else
    local packed = cjson.decode(record)
    if outcome == 's' and f.timed_out == '1' then
      -- Too late to wait for a better reader: the local text is the result.
      packed.st, packed.src, packed.t1 = 'completed', 'mupdf_timeout_fallback', now / 1000
      record, outcome = cjson.encode(packed), 'd'
    elseif outcome == 's' and f.closed == ARGV[2] then
      record, outcome = given_up(packed, now)
    end
    known[number] = record
    records[#records + 1], records[#records + 2] = number, record
    if outcome == 'd' then done = done + 1
    elseif outcome == 'f' then failed = failed + 1
    else
      slow[#slow + 1], slow[#slow + 2] = number, number
    end
    -- Fields that the record does not have are absent from the event.
    seen[#seen + 1] = {number = tonumber(number), status = packed.st, source = packed.src, grade = packed.gr,
      confidence = packed.cf, words_missing = packed.wm, ungrounded = packed.ug, ungrounded_numbers = packed.un}
  end
end
call_with('HSET', PAGES, records)
call_with('ZADD', SLOW, slow)

local changed = {}
local function add(field, by)
  if by == 0 then return end
  f[field] = (tonumber(f[field]) or 0) + by
  changed[#changed + 1], changed[#changed + 2] = field, f[field]
end
if is_chunk then f.out = (tonumber(f.out) or 0) - pages else f.slow_out = (tonumber(f.slow_out) or 0) - 1 end
add('done', done)
add('failed', failed)
add('late', late)
add('tokens_in', tonumber(ARGV[4]))
add('tokens_out', tonumber(ARGV[5]))
add('cost_micro', tonumber(ARGV[6]))
add('slow_total', #slow / 2)
local units = {}
-- Added before the finished unit is removed: an empty hash would be deleted, and its TTL with it.
for _, part in ipairs(next_units(f, units, epoch, now)) do changed[#changed + 1] = part end
call_with('HSET', JOB, changed)
if is_chunk and f.follow == '1' then
  -- Every page has its local text and some wait for a better reader: the vault may file the text that is there.
  local total = tonumber(f.total)
  if tonumber(f.next) >= total and tonumber(f.out) == 0 and (tonumber(f.done) or 0) + (tonumber(f.failed) or 0) < total then
    add_unit(units, 'vault', epoch, now)
  end
end
redis.call('HDEL', WORK, unit)
local deadline = 0
if #slow > 0 then
  set_deadline()
  f.deadline_at = redis.call('HGET', JOB, 'deadline_at')
  deadline = tonumber(f.deadline_at or nil) or 0
end
if is_chunk or not has_old then
  local ttl = redis.call('PTTL', JOB)
  redis.call('PEXPIRE', PAGES, ttl)
  redis.call('PEXPIRE', WORK, ttl)
  if #slow > 0 then redis.call('PEXPIRE', SLOW, ttl) end
end
if #seen > 0 then
  emit('pages', {pages = seen, progress = progress_of(f), pages_completed = tonumber(f.done) or 0,
    pages_failed = tonumber(f.failed) or 0, total_pages = tonumber(f.total), at = now / 1000})
end
local described = {}
for _, one in ipairs(units) do
  if string.sub(one, 1, 1) == 'p' then
    for i = 8, first - 1 do described[i - 7] = f[ARGV[i]] or false end
    break
  end
end
return {done + failed + #slow / 2, deadline, described, unpack(units)}
