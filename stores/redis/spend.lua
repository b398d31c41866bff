-- What a workflow spends. KEYS[1]: its hash. Amounts are attempts, tokens and billionths of a US dollar.
-- ARGV: op, id, three amounts, three ceilings (0: none), late, estimated.
local op, id, late, estimated = ARGV[1], ARGV[2], ARGV[9] == '1', ARGV[10] == '1'
local keep = 24 * 3600 * 1000

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local function int(n) return string.format('%.0f', n) end
local function packed(a) return int(a[1]) .. ' ' .. int(a[2]) .. ' ' .. int(a[3]) end
local function unpacked(s)
	local a = {}
	for n in string.gmatch(s, '-?%d+') do
		a[#a + 1] = tonumber(n)
	end
	return a
end

local began = tonumber(redis.call('HGET', KEYS[1], 'began') or now)
local spent = unpacked(redis.call('HGET', KEYS[1], 'spent') or '0 0 0')
local said = redis.call('HGET', KEYS[1], 'id:' .. id)
local amounts = {tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])}
local fits, change = true, nil

if op == 'reserve' and not said then
	for i = 1, 3 do
		local ceiling = tonumber(ARGV[5 + i])
		if ceiling > 0 and amounts[i] > 0 and spent[i] + amounts[i] > ceiling then
			fits = false
		end
	end
	if fits then
		change = amounts
		redis.call('HSET', KEYS[1], 'id:' .. id, packed(amounts))
	end
elseif op == 'settle' and said and said ~= 'settled' then
	local reserved = unpacked(said)
	change = {amounts[1] - reserved[1], amounts[2] - reserved[2], amounts[3] - reserved[3]}
	redis.call('HSET', KEYS[1], 'id:' .. id, 'settled')
elseif op == 'settle' and late and not said then
	change = amounts
	redis.call('HSET', KEYS[1], 'id:' .. id, 'settled')
end

if change then
	for i = 1, 3 do
		spent[i] = spent[i] + change[i]
	end
	redis.call('HSET', KEYS[1], 'began', int(began), 'spent', packed(spent))
	if estimated then
		redis.call('HSET', KEYS[1], 'estimated', '1')
	end
	redis.call('PEXPIRE', KEYS[1], keep)
end
return {fits and 1 or 0, int(spent[1]), int(spent[2]), int(spent[3]), int(now - began),
	redis.call('HEXISTS', KEYS[1], 'estimated')}
