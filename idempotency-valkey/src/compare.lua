-- Comparisons of two texts. Each returns a number below, at or above 0, or nil if they cannot be compared.
-- Bytes, not letters of a locale, which `<` compares.
local function bytes(a, b)
  if not a or a == b then return a and 0 end
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
  if not a then return nil end
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
