-- One operation on the rest of one name. All times are microseconds of this server's clock.
-- KEYS[1]: the hash of the rest. ARGV: see cooldownArgs in cooldowns.go.
-- The answer, and what is published with a change: see decodeCooldown.
local op, channel, scope, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local base, fresh, ago, left = tonumber(ARGV[5]), ARGV[6] == '1', tonumber(ARGV[7]), tonumber(ARGV[8])
local token, lease, force = ARGV[14], tonumber(ARGV[15]), ARGV[16] == '1'
local forget, told = 3600 * 1000000, 1000000

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])

local fields = {'gen', 'rests', 'since', 'until', 'failure', 'token', 'lease', 'failed', 'class', 'why', 'deployment', 'asked'}
local had = redis.call('HMGET', KEYS[1], unpack(fields))
local h = {}
for i, f in ipairs(fields) do
	h[f] = had[i] or ''
end
for _, f in ipairs({'gen', 'since', 'until', 'failure', 'lease'}) do
	h[f] = tonumber(h[f]) or 0
end
local rests = h.rests == '1'
local changed, write = false, false

local function cause()
	h.failed, h.class, h.why, h.deployment, h.asked = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13]
end

local function begin()
	h.gen = math.max(now, h.gen + 1, base + 1)
	rests, h.since, h.failure, h['until'], h.token, h.lease = true, now - ago, now - ago, now + left, '', 0
	cause()
	changed = true
end

local function note()
	if not rests then
		if h.gen == 0 or h.gen <= base or h.gen <= now - ago then
			begin()
		end
	elseif fresh and h.gen <= base then
		local longest = math.max(h['until'], now + left)
		begin()
		h['until'] = longest
	else
		write = true
		h.failure = math.max(h.failure, now - ago)
		if now + left > h['until'] then
			-- Of many that fail at the same time each is a little later. The probe is asked for here, so who does not hear
			-- of that asks in vain.
			changed = now + left - h['until'] >= told
			h['until'] = now + left
			local failed = h.failed
			cause()
			h.failed = failed
		end
	end
end

if op == 'rest' then
	note()
elseif op == 'probe' then
	left = 0
	if not rests then
		note()
	end
	if rests and h['until'] <= now and (h.token == '' or h.token == token or h.lease <= now) then
		h.token, h.lease, changed = token, now + lease, true
	end
elseif op == 'free' then
	if h.token ~= '' and h.token == token then
		h.token, h.lease, changed = '', 0, true
	end
elseif op == 'end' then
	if rests and (force or (h.gen <= base and h.failure <= now - ago)) then
		local gen = math.max(now, h.gen + 1)
		h = {gen = gen, since = 0, ['until'] = 0, failure = 0, token = '', lease = 0, failed = '0', class = '', why = '',
			deployment = '', asked = '0'}
		rests, changed = false, true
	end
end

local function int(n) return string.format('%.0f', n) end

if changed or write then
	local set = {}
	h.rests = rests and '1' or '0'
	for _, f in ipairs(fields) do
		set[#set + 1] = f
		set[#set + 1] = type(h[f]) == 'number' and int(h[f]) or h[f]
	end
	redis.call('HSET', KEYS[1], unpack(set))
	redis.call('PEXPIRE', KEYS[1], int(math.ceil((math.max(h['until'] - now, 0) + forget) / 1000)))
end

local answer = {scope, name, int(now), int(h.gen), rests and '1' or '0', int(h.since), int(h['until']), h.token, int(h.lease),
	h.failed, h.class, h.why, h.deployment, h.asked}
for i, v in ipairs(answer) do
	answer[i] = #v .. ':' .. v
end
answer = table.concat(answer)
if changed then
	redis.call('PUBLISH', channel, answer)
end
return answer
