-- Stores the text of a page that still waits for its reader. The page stays unfinished.
-- ARGV  epoch, page number, packed record
-- Answers 1 if it is stored, 0 if the page has ended or the epoch has passed.
if redis.call('HGET', JOB, 'status') ~= 'processing' or num('epoch') ~= tonumber(ARGV[1]) then return 0 end
local old = redis.call('HGET', PAGES, ARGV[2])
if not old or terminal(cjson.decode(old).st) then return 0 end
redis.call('HSET', PAGES, ARGV[2], ARGV[3])
return 1
