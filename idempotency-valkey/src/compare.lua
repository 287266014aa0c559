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

local function numbers(a, b)
  if not a then return nil end
  if #a < 16 and #b < 16 and a:find('^%d+$') then return tonumber(a) - tonumber(b) end
  -- Digits, not numbers of Lua, which are exact to 2^53 only. A fraction is rounded down. Returns nil if the text is no number of 64 bits.
  local function digits(text)
    local sign, whole, rest = text:match('^(-?)0*(%d+)(.*)$')
    if not whole or rest ~= '' and (sign == '-' or not rest:match('^%.%d+$')) then return nil end
    local most = sign == '-' and '9223372036854775808' or '9223372036854775807'
    if #whole > #most or #whole == #most and bytes(whole, most) > 0 then return nil end
    return sign == '-' and whole ~= '0', whole
  end
  local a_negative, a_whole = digits(a)
  if a_whole == nil then return nil end
  local b_negative, b_whole = digits(b)
  if a_negative ~= b_negative then return a_negative and -1 or 1 end
  local order = #a_whole - #b_whole
  if order == 0 then order = bytes(a_whole, b_whole) end
  return a_negative and -order or order
end
