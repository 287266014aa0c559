-- Replaces the value of a key if it is the one that was read. Returns nil if it did, otherwise the present value, or 0 if there is none.
-- An empty old value stands for no key, an empty new one deletes the key. An empty value is never replaced: another program wrote it. Without an old one nothing is replaced, without seconds the key stays.
local key, old, new, seconds = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local function failed(reply)
  return type(reply) == 'table' and reply.err
end

local found = redis.pcall('GET', key)
if failed(found) then return found end
if found == '' or (found or '') ~= old then
  -- Changes nothing. A server that is no primary any more refuses it: its value can be old. One that must not write now still has the last one.
  local tried = redis.pcall('GETEX', key)
  local error = failed(tried)
  if error and not error:find('MISCONF') and not error:find('NOREPLICAS') then return tried end
  return found or 0
end

local function write()
  if new == '' then return redis.pcall('DEL', key) end
  if not seconds then return redis.pcall('SET', key, new) end
  return redis.pcall('SET', key, new, 'EX', seconds)
end
local wrote = write()
if found and failed(wrote) and wrote.err:find('OOM') then
  -- A full server performs SET after another command that can write. So it refuses claims, and a run that has begun can complete.
  redis.pcall('GETEX', key)
  wrote = write()
end
return failed(wrote) and wrote
