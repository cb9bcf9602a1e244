package reliability

import "testing"

// A frame lost while the others take no longer than ever says nothing of the
// load; one lost when they took longer does.
func TestStoryLossWithoutQueue(t *testing.T) {
	story(t, &Config{InitialWindow: 20}, 0, `
		0us push 20
		    0ns send 0 1 2 3 4 5 6 7 8 9! 10 11 12 13 14 15 16 17 18 19!
		20us ack 20
		100us push 20
		    100us send 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39!
		120us ack 40
		200us push 20
		    200us send 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59
		220us ack 60
		300us push 20
		    300us send 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79
		320us ack 60 sack 61-79
		    330us again 60
		350us ack 80
		350us show
		    350us window 60.00, 0 in flight, 0 lost, rtt 20us, rto 10ms
		400us push 20
		    400us send 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99
		430us ack 80 sack 81-99
		    440us again 80
		470us ack 100
		470us show
		    470us window 42.00, 0 in flight, 0 lost, rtt 21250ns, rto 10ms
		`)
}

// When too many are lost, that is congestion whatever the round trips say.
func TestStoryManyLosses(t *testing.T) {
	story(t, &Config{InitialWindow: 20}, 0, `
		0us push 20
		    0ns send 0 1 2 3 4 5 6 7 8 9! 10 11 12 13 14 15 16 17 18 19!
		20us ack 20
		100us push 20
		    100us send 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39!
		120us ack 40
		200us push 20
		    200us send 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59
		220us ack 60
		300us push 20
		    300us send 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79
		320us ack 60 sack 72-79
		321us show
		    321us window 60.00, 20 in flight, 0 lost, rtt 20us, rto 10ms
		    330us again 60
		    330us again 61
		    330us again 62
		    330us again 63
		    330us again 64
		    330us again 65
		    330us again 66
		    330us again 67
		    330us again 68
		    330us again 69
		    330us again 70
		    330us again 71
		350us ack 80
		350us show
		    350us window 42.00, 0 in flight, 0 lost, rtt 20us, rto 10ms
		`)
}

// A round trip that has grown for good is the smallest in the end, one that
// was long for a moment is not.
func TestSmallestRoundTrip(t *testing.T) {
	cfg := (*Config)(nil).Resolve()
	var e rttEstimator
	e.init(cfg)
	now := int64(1)
	for _, c := range []struct{ after, rtt, want int64 }{
		{0, 20_000, 20_000},
		{minLife / 2, 50_000, 20_000},
		{minLife/2 + 1, 70_000, 20_000}, // the next span begins; the 20 us were in the last
		{minLife / 2, 60_000, 20_000},
		{minLife/2 + 1, 5_000_000, 60_000},
		{1, 40_000, 40_000},
	} {
		now += c.after
		e.sample(now, c.rtt, true, cfg)
		if e.smallest != c.want {
			t.Errorf("after a round trip of %d ns the smallest is %d ns, want %d", c.rtt, e.smallest, c.want)
		}
	}
}
