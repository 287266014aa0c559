-- Evaluates the condition of a write on the record, performs the write if it holds, and returns the record that it was evaluated on.
-- One script, so that all three are one step. `script.rs` replaces each word with a dollar sign, `reply.rs` reads what is returned.
local key, arguments, kind = KEYS[1], ARGV, ARGV[1]
local record, flat = {}, {}
-- Those that the condition names. Results of steps can be long.
local names = {$NAMES}
if #names > 0 then
  local values = redis.pcall('HMGET', key, unpack(names))
  if values.err then return {3, values.err} end
  for i = 1, #names do record[names[i]] = values[i] or nil end
end
if not record.v then
  flat = redis.pcall('HGETALL', key)
  if flat.err then return {3, flat.err} end
  for i = 1, #flat, 2 do record[flat[i]] = flat[i + 1] end
end
if record.v and record.v ~= '1' then return {3, 'VERSION ' .. record.v} end

local exists, holds = next(record) ~= nil, $NOTHING
if exists then
  $COMPARE
  holds = $CONDITION
end
if not holds then
  -- Changes nothing. A server that is no primary any more refuses it: its record can be old.
  local tried = redis.pcall('HDEL', key, '')
  if type(tried) == 'table' and tried.err:find('READONLY') then return {3, tried.err} end
  if exists and #flat == 0 then flat = redis.call('HGETALL', key) end
end

-- Returns the record as one value, if there is one: without the event, which no rule of the protocol asks for.
local function with_record(code)
  if not exists then return code end
  if kind ~= 'read' then
    for i = #flat - 1, 1, -2 do
      if flat[i] == 'event' then
        table.remove(flat, i)
        table.remove(flat, i)
      end
    end
  end
  return {code, cmsgpack.pack(flat)}
end
if not holds then return with_record(0) end
if kind == 'step' and not record.steps then return 2 end

-- Performs a command that writes. Afterwards a failure is one in the middle.
local wrote, failure = false, nil
local function write(...)
  if failure then return end
  local result = redis.pcall(...)
  if type(result) == 'table' and result.err then
    failure = {wrote and 4 or 3, result.err}
  else
    wrote = true
  end
end

if kind == 'probe' then
  -- Each command that a write can need, on a key of no record: whether the user may perform it, and the server does.
  write('HSET', key, 'v', '1')
  write('PERSIST', key)
  write('EXPIRE', key, 60)
  write('HDEL', key, 'none')
  write('HMGET', key, 'v')
  -- Also after a failure, so that nothing is left.
  local refused = failure
  failure = nil
  write('DEL', key)
  failure = refused or failure
elseif kind == 'delete' then
  if exists then write('DEL', key) end
else
  local is_put, life = kind == 'put', arguments[$WRITTEN]
  local first = $WRITTEN + 2 + arguments[$WRITTEN + 1]
  local removed = {'', unpack(arguments, $WRITTEN + 2, first - 1)}
  local function live()
    if life == 'never' then
      write('PERSIST', key)
    elseif life ~= 'same' then
      write('EXPIRE', key, life)
    end
  end
  -- A full server performs HSET only after another write. So it refuses claims, and a run that has begun can complete.
  local begun = exists and not is_put
  if begun then
    live()
    if #removed > 1 or not wrote then write('HDEL', key, unpack(removed)) end
  end
  -- Before the old fields go: without a field the key is missing, and a cluster that moves its slot refuses the next command.
  write('HSET', key, 'v', '1', unpack(arguments, first))
  -- A put leaves no other field, and an update that reads all of them leaves no other step.
  if exists and #names == 0 then
    local set = {v = true}
    for i = first, #arguments, 2 do set[arguments[i]] = true end
    for name in pairs(record) do
      if not set[name] and (is_put or name:sub(1, 5) == 'step:') then write('HDEL', key, name) end
    end
  end
  if not begun then live() end
end
if failure then return failure end
if kind == 'put' then return with_record(1) end
return 1
