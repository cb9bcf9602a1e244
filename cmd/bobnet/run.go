package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/internal/launch"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const runLong = `Start CMD as the ranks of one job on one or more hosts, and wait for all of them.

A rank finds its place in BOBNET_RANK, BOBNET_SIZE and BOBNET_JOB, and the other ranks through
PMI-1 (PMI_FD), whose key-value space bobnet run serves. Programs of package job need nothing
else; programs linked with MPICH can be started as well. Ranks get the environment, the
working directory, which must exist on all hosts, and with --key the path of the key file.
Ranks cannot read standard input. With --bind each rank runs on its own processor, as in
bobnet lab, and finds the number of processors of all hosts in BOBNET_PROCESSORS.

Bobnet run reaches hosts through MPICH's mpiexec (hydra) if it is installed, and otherwise
through ssh. Ssh must not prompt: set up keys and known hosts before. All hosts need the same
bobnet command. Before anything starts, bobnet run names each host that does not answer, runs
another version, has no usable interface or another one than the other hosts, or has a clock
that is off; with --bind also a host with fewer processors than ranks. Bobnet doctor --hosts
shows the details. A host can run 63 ranks of Bobnet on an interface, because each rank needs
a block of 1,024 ports.

Each line of output starts with the number of its rank. A rank fails if it exits with a code
other than 0 or is killed by a signal. The first failed rank or lost host ends the others: by
SIGTERM, and two seconds later by SIGKILL. So does Ctrl-C. A host that sends nothing for 20
seconds is lost; its ranks end when it detects this.

No process is left behind, however bobnet run ends: the hosts detect the closed connection.
On each host a pair of processes (hydra: a pair for each rank) ends everything that ranks have
started, including daemons, even if SIGKILL ends one process of the pair. Only if SIGKILL ends
both at once, daemons that ranks have started remain.

With --continue a failed rank or a lost host does not end the others. The last line reports
which ranks failed and how. A rank that calls Abort still ends the job; so does a rank that
ends while others wait for it to join. Hydra cannot continue: --engine auto then uses ssh.

The exit code is 0 if all ranks exit with 0. Otherwise it is:

  the worst  the highest exit code of the failed ranks, 128 plus the signal for a killed
             rank; ranks that bobnet run itself ended do not count. With hydra: the code
             of the first failed rank that hydra detects (hydra kills the others by
             SIGKILL), or 255 or another code of hydra's own if hydra failed
  127, 126   the command was not found, or cannot be executed
  130        after Ctrl-C
  2          wrong usage
  1          nothing was started because of a host, or a host was lost`

// hostFlags are the flags that select hosts.
type hostFlags struct {
	list, file string
	key        string // file
	ssh        string
	program    string
	timeout    time.Duration
}

func (f *hostFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(text(&f.list, "", func(list string) error { _, err := launch.ParseHosts(list); return err }), "host", "comma-separated `hosts`, each with its number of ranks: a,b:2,[fd00::1]:2")
	flags.Var(input(&f.file), "hosts", "`file` of hosts, one per line: a, b:2, or b slots=2")
	flags.Var(text(&f.ssh, strings.Join(launch.SSH, " "), command), "ssh", "`command`, with its options, that runs a command on another host")
	flags.Var(text(&f.program, ""), "program", "`path` of the bobnet command on other hosts; by default the same as here")
	flags.Var(period(&f.timeout, 20*time.Second, time.Millisecond, time.Hour), "connect-timeout", "how long a host may take to answer, and with hydra to start a rank")
}

// config returns the configuration for the flags.
func (f *hostFlags) config(nic vipl.Config) (*launch.Config, error) {
	c := &launch.Config{Version: thisBuild().name(), Interface: nic.Interface, Driver: nic.Driver, SSH: strings.Fields(f.ssh),
		Program: f.program, Timeout: f.timeout, Stdout: stdout, Stderr: os.Stderr}
	var err error
	if f.key != "" && f.list == "" && f.file == "" { // other hosts check their own file
		if _, err := seal.File(f.key)(); err != nil {
			return nil, usageError{fmt.Errorf("--key: %w", err)}
		}
	}
	if c.KeyFile, err = keyFileWanted(f.key); err != nil {
		return nil, err
	}
	switch {
	case f.list != "" && f.file != "":
		return nil, usageError{errors.New("--host and --hosts exclude each other")}
	case f.list != "":
		if c.Hosts, err = launch.ParseHosts(f.list); err != nil {
			return nil, usageError{fmt.Errorf("--host: %w", err)}
		}
	case f.file != "":
		if c.Hosts, err = readHosts(f.file); err != nil {
			return nil, err
		}
	}
	if c.Own, err = os.Executable(); err != nil {
		return nil, err
	}
	if c.Program == "" {
		c.Program = c.Own
	}
	return c, nil
}

// command rejects a command line whose program does not exist.
func command(line string) error {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return errEmpty
	}
	if _, err := exec.LookPath(fields[0]); err != nil {
		return fmt.Errorf("command %s not found: %w", fields[0], errors.Unwrap(err))
	}
	return nil
}

// keyPath is a flag whose value is the path of a key file that may exist on other hosts only.
func keyPath(to *string) *setting[string] {
	s := text(to, "")
	s.files = true
	return s
}

// keyFileWanted returns the path of the key file from a flag or the environment.
func keyFileWanted(flag string) (string, error) {
	if flag == "" {
		if _, err := seam.Key(); err != nil {
			return "", err
		}
		flag = os.Getenv(vipl.EnvKeyFile)
	}
	if flag == "" {
		return "", nil
	}
	return filepath.Abs(flag)
}

func readHosts(name string) ([]launch.Host, error) {
	file, err := userfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hosts, err := launch.ReadHosts(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	return hosts, nil
}

func newRunCmd() *cobra.Command {
	var (
		nic    vipl.Config
		where  hostFlags
		ranks  int
		order  launch.Order
		bind   bool
		goOn   bool
		engine string
	)
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARGS...]",
		Short: "Run a command as the ranks of a job on one or more hosts",
		Long:  runLong,
		Example: "  bobnet run -n 4 -- ./heat\n  bobnet run --host a:2,b:2 -- ./heat\n  bobnet run -n 2 --bind -- ./cg -serial\n" +
			"  bobnet run -n 64 --hosts hosts.txt --map node --iface eth1 -- ./fft3d",
		Args: usage(wants("command to run")),
		RunE: func(cmd *cobra.Command, args []string) error {
			nic, err := nic.FromEnvironment()
			if err != nil {
				return err
			}
			cfg, err := where.config(nic)
			if err != nil {
				return err
			}
			cfg.N, cfg.By, cfg.Argv = ranks, order, args
			cfg.Bind, cfg.Continue = bind, goOn
			if err := cfg.Complete(); err != nil {
				return usageError{fmt.Errorf("run: %w", err)}
			}
			return runJob(cmd.Context(), cfg, engine)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after CMD belong to CMD
	flags.VarP(number(&ranks, 0, 1, launch.MaxRanks), "ranks", "n", "number of ranks; by default the sum of the hosts' numbers")
	flags.Var(choice(&order, launch.ByCore, string(launch.ByCore), string(launch.ByNode)), "map", "order of ranks: core fills each host in turn; node assigns ranks to hosts round-robin")
	flags.BoolVar(&bind, "bind", false, bindUsage)
	flags.BoolVar(&goOn, "continue", false, continueUsage+"; not with hydra")
	flags.Var(choice(&engine, "auto", "auto", "hydra", "ssh"), "engine", "what starts the ranks: hydra ("+launch.Mpiexec+"), ssh (bobnet itself), or auto (hydra if it is installed and another host is used, else ssh)")
	flags.Var(keyPath(&where.key), "key", keyUsage+"; the path is the same on all hosts")
	where.register(cmd)
	linkFlags(cmd, &nic)
	return cmd
}

// runJob runs the job with an engine.
func runJob(ctx context.Context, cfg *launch.Config, engine string) error {
	mpiexec, err := exec.LookPath(launch.Mpiexec)
	switch {
	case engine == "ssh" || engine == "auto" && (err != nil || cfg.Continue || !cfg.Remote() || cfg.HydraTakes() != nil):
		return cfg.Run(ctx)
	case cfg.Continue:
		return usageError{errors.New("run: --engine hydra: hydra ends all ranks when one fails (for --continue use --engine ssh)")}
	case err != nil:
		return fmt.Errorf("run: --engine hydra: %w (on Debian, install the package mpich)", err)
	}
	return cfg.Hydra(ctx, mpiexec)
}

// newBindCmd returns the hidden verb that bobnet run --bind starts instead of each rank's command.
// It binds itself to a processor and then executes the command.
func newBindCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "bind CMD [ARGS...]",
		Short:              "Run a rank's command on its own processor, for bobnet run",
		Hidden:             true,
		DisableFlagParsing: true, // all flags belong to CMD
		Args:               usage(wants("command to run")),
		RunE: func(_ *cobra.Command, args []string) error {
			code, err := launch.Bind(args)
			fmt.Fprintln(os.Stderr, "bobnet:", err)
			os.Exit(code)
			return nil
		},
	}
}

// newNodeCmd returns the hidden verb that bobnet run starts on each host.
func newNodeCmd() *cobra.Command {
	var (
		given vipl.Config
		key   string
	)
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "Run the ranks of one host, for bobnet run",
		Hidden: true,
		Args:   usage(noArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := keep.Guard(nil); err != nil {
				return err
			}
			cfg, err := given.FromEnvironment()
			inv := launch.Look(thisBuild().name(), &cfg, key)
			if err != nil {
				inv.Trouble = err.Error()
			}
			if key != "" {
				cfg.Key = seal.File(key)
			}
			return launch.ServeNode(os.Stdin, os.Stdout, inv, &cfg)
		},
	}
	cmd.Flags().Var(keyPath(&key), "key", keyUsage)
	linkFlags(cmd, &given)
	return cmd
}

// survey prints the findings about hosts.
func survey(ctx context.Context, out io.Writer, where *hostFlags, nic vipl.Config, asJSON bool) error {
	cfg, err := where.config(nic)
	if err == nil {
		err = cfg.Complete()
	}
	if err != nil {
		return err
	}
	findings := cfg.Survey(ctx)
	if ctx.Err() != nil { // an interrupted check is not a finding
		return context.Cause(ctx)
	}
	return report(out, findings, asJSON)
}
