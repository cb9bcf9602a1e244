package reliability

import (
	"math"
	"testing"
)

func TestStoryDraft(t *testing.T) {
	story(t, &Config{Window: 8, InitialWindow: 8}, 0, `
		0us push 20
		20us ack 4
		30us ack 8
		`)
	story(t, &Config{InitialWindow: 1}, 0, `
		0us push 6
		20us ack 1
		45us ack 3
		30ms wait
		30020us ack 4
		30020us show
		40ms wait
		`)
	story(t, nil, 0, `
		0us push 100
		100us ack 10
		200us ack 30
		5s wait
		5100ms wait
		5100ms ack 31
		5100ms show
		5100200us ack 31 sack 32-34
		5100200us show
		`)
	story(t, nil, 0, `
		0us push 4
		20us ack 4
		1ms push 4
		30ms wait
		30ms show
		30ms ack 6
		30ms show
		31ms ack 8
		`)
	story(t, nil, 0, `
		0us push 4
		20us ack 4
		100us push 6
		120us ack 4 sack 5-9
		140us wait
		141us push 2
		170us ack 4 sack 5-11
		180us wait
		190us ack 12
		190us show
		`)
	story(t, nil, 0, `
		0us push 4
		20us ack 5
		20us ack 2 sack 5
		20us ack 2 sack 3
		20us ack 0 sack 70
		20us ack -1 sack 70
		20us show
		`)
	story(t, &Config{InitialWindow: 128}, 0, `
		0us push 70
		20us ack 0 sack 1-5
		25us ack 0 sack 1-64
		28us ack 65
		40us show
		50us ack 70
		100us push 70
		120us ack 70 sack 71-75
		148us ack 70 sack 71-134
		149us ack 140
		150us show
		`)
	story(t, nil, math.MaxUint32-1, `
		0us push 5
		0us frame 0
		1us frame 2
		2us frame 3
		3us frame 1
		20us ack 1 sack 3
		30us ack 1 sack 3-4
		40us ack 5
		41us frame 2
		`)
}
