package job

// Space is what ranks tell each other by, for tests.
type Space = space

// SetSpace has all ranks of this process use what of returns for each, until the function
// that it returns is called.
func SetSpace(of func(id *Identity) Space) (restore func()) {
	old := spaceOf
	spaceOf = func(id *Identity) (*launcher, space) { return nil, of(id) }
	return func() { spaceOf = old }
}

// FindPlaceIn is FindPlace for any environment and host.
func FindPlaceIn(env map[string]string, host string) (Place, error) {
	return findPlace(func(name string) string { return env[name] }, func() (string, error) { return host, nil })
}

// Value and ParseValue are what ranks put into a space.
var (
	Value      = valueOf
	ParseValue = parseValue
)

// TakeLauncher reports whether there is a connection with the launcher for the job that
// id is of. It then ends that.
func TakeLauncher(id *Identity) bool {
	l, _ := launched(id)
	if l != nil {
		l.finalize()
	}
	return l != nil
}

// ForgetLaunchers has the environment be read anew.
func ForgetLaunchers() {
	launchers.Lock()
	defer launchers.Unlock()
	launchers.by = nil
}
