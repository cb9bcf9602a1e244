package job

import (
	"fmt"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// Several programs under one membership. Packages that a process uses together, such as one for
// messages and one for remote memory, belong to one rank of one job. If each joined the job by
// itself, all would look for the ranks under the same names, and the first would take the second
// for another process with the same rank. So the process joins once, and each package gets the
// Member. The package's ranks then use their own names on the member's NIC, and belong to the
// member's run.

// memberLook is the interval at which Meet checks whether the member has learned of a failure; its
// messages do not wake goroutines that wait for a program's own connections.
const memberLook = 50 * time.Millisecond

// New returns the membership of one more program, with messages of format version, in the run of
// the job that m is a member of. Its Meet uses m's NIC, takes at most timeout, and fails as soon as
// m learns that a rank has failed. All ranks must call New. A program name can be used once at a
// time: it is free again after Close.
//
// Close the Job before m's Leave or Fail.
func (m *Member) New(program string, version uint32, links Links, timeout time.Duration) (*Job, error) {
	id := m.Identity()
	id.Program, id.Version, id.under = program, version, "/"+strings.ToLower(program)
	if n := len(id.Address(id.Size - 1)); n > vipl.MaxName {
		return nil, fmt.Errorf("job: the ranks of program %q of job %q would have names of %d bytes: the maximum is %d", program, id.Job, n, vipl.MaxName)
	}
	t := m.t
	t.Lock()
	defer t.Unlock()
	if t.programs[program] {
		return nil, fmt.Errorf("job: %s already uses this member", program)
	}
	if t.programs == nil {
		t.programs = map[string]bool{}
	}
	t.programs[program] = true
	j := New(id, links, timeout)
	j.member = m
	return j, nil
}

// forget makes the program's name available again.
func (m *Member) forget(program string) {
	m.t.Lock()
	defer m.t.Unlock()
	delete(m.t.programs, program)
}
