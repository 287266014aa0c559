-- Evaluates the condition of a write on the record, performs the write if it holds, and returns the record that it was evaluated on.
-- One script, so that all three are one step. What the arguments are: `request.rs`. What is returned: `reply.rs`.
local key, arguments = KEYS[1], ARGV
local flat = redis.pcall('HGETALL', key)
if flat.err then return {3, flat.err} end
local record = {}
for i = 1, #flat, 2 do record[flat[i]] = flat[i + 1] end
local exists = #flat > 0

-- Bytes, not letters of a locale, which `<` compares.
local function bytes(a, b)
  if a == b then return 0 end
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y and -1 or 1 end
  end
  return #a < #b and -1 or 1
end

-- Digits, not numbers of Lua, which are exact to 2^53 only. Returns nil if the text is no number.
local function digits(text)
  local sign, whole, rest = text:match('^(-?)0*(%d+)(.*)$')
  if not whole or #whole > 19 or not (rest == '' or rest:match('^%.%d+$')) then return nil end
  local fraction = rest:match('[1-9]') and 1 or 0
  return sign == '-' and (whole ~= '0' or fraction == 1), whole, fraction
end
-- `b` is whole.
local function numbers(a, b)
  if #a < 16 and #b < 16 and a:find('^%d+$') then return tonumber(a) - tonumber(b) end
  local a_negative, a_whole, fraction = digits(a)
  if a_whole == nil then return nil end
  local b_negative, b_whole = digits(b)
  if a_negative ~= b_negative then return a_negative and -1 or 1 end
  local order = #a_whole - #b_whole
  if order == 0 then order = bytes(a_whole, b_whole) end
  if order == 0 then order = fraction end
  return a_negative and -order or order
end

-- Evaluates the condition that begins at `at`, and moves `at` behind it. A group says how many arguments are in it.
local at = 1
local function take()
  at = at + 1
  return arguments[at - 1]
end
local function holds()
  local kind = take()
  if kind == 'all' or kind == 'any' then
    local decides = kind == 'any'
    local stop = take() + at
    while at < stop do
      if holds() == decides then
        at = stop
        return decides
      end
    end
    return not decides
  end
  if kind == 'none' then return not exists end
  local value = record[take()]
  if kind == 'exists' then return value ~= nil end
  if kind == 'missing' then return value == nil end
  local of_numbers, operand = kind:sub(1, 2) == 'n-', take()
  local order
  if value then order = (of_numbers and numbers or bytes)(value, operand) end
  if of_numbers then kind = kind:sub(3) end
  if kind == 'differs' then return order ~= 0 end
  if kind == 'equals' then return order == 0 end
  return order ~= nil and order < 0
end

local kind = take()
-- A listing shows it, and a read refuses it as a write does.
if record.v and record.v ~= '1' and kind ~= 'list' then return {3, 'VERSION ' .. record.v} end

-- Returns the record without the event, which no rule of the protocol asks for.
local function with_record(code)
  if not record.event or kind == 'read' then
    table.insert(flat, 1, code)
    return flat
  end
  local reply = {code}
  for i = 1, #flat, 2 do
    if flat[i] ~= 'event' then
      reply[#reply + 1] = flat[i]
      reply[#reply + 1] = flat[i + 1]
    end
  end
  return reply
end

if not holds() then
  -- Changes nothing. A server that is no primary any more refuses it: its record can be old.
  local tried = redis.pcall('HDEL', key, '')
  if type(tried) == 'table' and tried.err:find('READONLY') then return {3, tried.err} end
  return with_record(0)
end
if kind == 'list' then
  -- A filter can ask whether these exist. Their values are not shown.
  local reply = {1}
  for name, value in pairs(record) do
    if name ~= 'data' and name ~= 'event' and name ~= 'steps' and name:sub(1, 5) ~= 'step:' then
      reply[#reply + 1] = name
      reply[#reply + 1] = value
    end
  end
  return reply
end
if kind == 'step' and not record.steps then return {2} end

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
  -- Also after a failure, so that nothing is left.
  local refused = failure
  failure = nil
  write('DEL', key)
  failure = refused or failure
elseif kind == 'delete' then
  if exists then write('DEL', key) end
else
  local seconds, drops_steps, is_put = take(), take() == '1', kind == 'put'
  local removed = tonumber(take())
  local first = at + removed
  -- A full server performs HSET only after another write. So it refuses claims, and a run that has begun can complete.
  if not is_put then write('HDEL', key, '', unpack(arguments, at, first - 1)) end
  -- Before the old fields go: without a field the key is missing, and a cluster that moves its slot refuses the next command.
  write('HSET', key, unpack(arguments, first))
  if exists and (is_put or drops_steps) then
    local set = {}
    for i = first, #arguments, 2 do set[arguments[i]] = true end
    for name in pairs(record) do
      if not set[name] and (is_put or name:sub(1, 5) == 'step:') then write('HDEL', key, name) end
    end
  end
  if seconds == 'never' or is_put and seconds == 'same' then
    write('PERSIST', key)
  elseif seconds ~= 'same' then
    write('EXPIRE', key, seconds)
  end
end
if failure then return failure end
if kind == 'put' then return with_record(1) end
return {1}
