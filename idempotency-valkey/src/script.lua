-- Evaluates the condition of a write on the record, performs the write if it holds, and returns the record that it was evaluated on.
-- One script, so that all three are one step. `script.rs` replaces each word with a dollar sign, `reply.rs` reads what is returned.
local key, arguments, kind = KEYS[1], ARGV, ARGV[1]
-- What the condition names, or false. Results of steps can be long.
local values = $VALUES
if values.err then return {3, values.err} end
local record, flat = {$RECORD}, {}
if not record.v then
  flat = redis.pcall('HGETALL', key)
  if flat.err then return {3, flat.err} end
  for i = 1, #flat, 2 do
    if record[flat[i]] == false then record[flat[i]] = flat[i + 1] end
  end
end
if record.v and record.v ~= '1' then return {3, 'VERSION ' .. record.v} end

local exists, holds = record.v or #flat > 0, $NOTHING
if exists then
  $COMPARE
  holds = $CONDITION
end
if not holds then
  -- Changes nothing. A server that is no primary any more refuses it: its record can be old.
  local tried = redis.pcall('HDEL', key, '')
  if type(tried) == 'table' and tried.err:find('READONLY') then return {3, tried.err} end
  if exists and #flat == 0 then flat = redis.call('HGETALL', key) end
elseif kind == 'step' and not record.steps then
  return 2
else
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
    -- A full server performs HSET only after another write. So it refuses claims, and a run that has begun can complete.
    local begun = exists and kind ~= 'put'
    if begun then
      $LIFE
      $REMOVAL
    end
    -- Before the old fields go: without a field the key is missing, and a cluster that moves its slot refuses the next command.
    write('HSET', key, 'v', '1', $FIELDSunpack(arguments, $MORE))
    -- A put leaves no other field, and an update that reads all of them leaves no other step.
    if exists and $READS_ALL then
      local set = {$SET}
      for i = $MORE, #arguments, 2 do set[arguments[i]] = true end
      for i = 1, #flat, 2 do
        local name = flat[i]
        if not set[name] and (kind == 'put' or name:sub(1, 5) == 'step:') then write('HDEL', key, name) end
      end
    end
    if not begun then
      $LIFE
    end
  end
  if failure then return failure end
  if kind ~= 'put' then return 1 end
end

-- Returns the record as one value, if there is one: without the event, which no rule of the protocol asks for.
local code = holds and 1 or 0
if not exists then return code end
if kind ~= 'read' and record.event ~= false then
  for i = #flat - 1, 1, -2 do
    if flat[i] == 'event' then
      table.remove(flat, i)
      table.remove(flat, i)
    end
  end
end
return {code, cmsgpack.pack(flat)}
