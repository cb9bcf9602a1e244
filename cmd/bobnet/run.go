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

const runLong = `Start CMD as the ranks of one job, on this host or on several, and wait for all.

A rank finds its place in BOBNET_RANK, BOBNET_SIZE and BOBNET_JOB, and finds the others by
PMI-1 (PMI_FD), whose key-value space bobnet run serves: programs of package job need
nothing else, and those that are linked with MPICH can be started, too. The environment
goes along, and the directory, which all hosts have, and with --key the path of the key file. Ranks read nothing from standard
input. With --bind each rank runs on a processor of its own, as in bobnet lab, and finds the
number of these, on all hosts, in BOBNET_PROCESSORS.

Hosts are reached by MPICH's mpiexec (hydra) where that is installed, and else by ssh, which
must not have to ask anything: keys and known hosts are there before. The bobnet command is
the same on all of them. A host that does not answer, or has another version, no interface
to use, another one than the others, or a clock that is off, is named before anything
starts, and with --bind one that has fewer processors than ranks; bobnet doctor --hosts shows
all that is known. A host takes 63 ranks of Bobnet on an
interface: each has a block of 1,024 ports, and there are so many.

Each line of output begins with the number of its rank. The first rank to fail, or host to
be lost, ends the others, as does Ctrl-C: by SIGTERM, and two seconds later SIGKILL. A rank
fails by an exit code other than 0, or a signal. Nothing is left behind, however bobnet run
ends: the hosts notice that the connection is closed. On each host a pair of processes (hydra:
for each rank) ends what ranks have started, daemons too, even if SIGKILL ends one of the pair.
If both get it at once, daemons that ranks have started stay. A host that sends nothing for 20
seconds is lost; its own ranks end when it notices that.

With --continue a rank that fails, or a host that is lost, ends no other rank. What bobnet
run prints last says which ranks have failed and how, and the exit code is the worst of all.
A rank that calls Abort ends the job all the same, and so does one that ends while others
wait for it to join. Hydra cannot do this: --engine auto then takes ssh.

The exit code of bobnet run is 0 if all ranks end with 0. If ranks fail it is the worst, that
is the highest, of all that have failed, where 128 plus the signal stands for a killed one,
and those that this engine ended by SIGTERM or SIGKILL do not count. With hydra it is that of
one rank, the first of whose failure hydra has heard, 128 plus the signal likewise, and the
others are ended by SIGKILL at once; 255, or another code of hydra's own, says that hydra
failed. It is 127 with either where the command is not found, 126 where it cannot be run, 130
after Ctrl-C, 2 for flags that make no sense, and 1 where nothing was started because of a
host, or a host was lost.`

// hostFlags are the flags by which verbs are told hosts.
type hostFlags struct {
	list, file string
	key        string // file
	ssh        string
	program    string
	timeout    time.Duration
}

func (f *hostFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(text(&f.list, "", func(list string) error { _, err := launch.ParseHosts(list); return err }), "host", "`hosts` with commas between them, each with its number of ranks: a,b:2,[fd00::1]:2")
	flags.Var(input(&f.file), "hosts", "`file` of hosts, one on a line: a, b:2, or b slots=2")
	flags.Var(text(&f.ssh, strings.Join(launch.SSH, " "), command), "ssh", "`command` that runs another one on the host that is given to it, with its options")
	flags.Var(text(&f.program, ""), "program", "`file` of the bobnet command on other hosts; by default the same as here")
	flags.Var(period(&f.timeout, 20*time.Second, time.Millisecond, time.Hour), "connect-timeout", "how long a host may take to answer")
}

// config returns what the flags ask for.
func (f *hostFlags) config(nic vipl.Config) (*launch.Config, error) {
	c := &launch.Config{Version: thisBuild().name(), Interface: nic.Interface, Driver: nic.Driver, SSH: strings.Fields(f.ssh),
		Program: f.program, Timeout: f.timeout, Stdout: stdout, Stderr: os.Stderr}
	var err error
	if f.key != "" && f.list == "" && f.file == "" { // other hosts are asked whether they have it
		if _, err := seal.File(f.key)(); err != nil {
			return nil, usageError{fmt.Errorf("--key: %w", err)}
		}
	}
	if c.KeyFile, err = keyFileWanted(f.key); err != nil {
		return nil, err
	}
	switch {
	case f.list != "" && f.file != "":
		return nil, usageError{errors.New("--host and --hosts are two ways to say the same: give one")}
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

// command refuses a command line whose program is not there.
func command(line string) error {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return errEmpty
	}
	if _, err := exec.LookPath(fields[0]); err != nil {
		return fmt.Errorf("there is no command %s: %w", fields[0], errors.Unwrap(err))
	}
	return nil
}

// keyPath is a flag whose value is the path of a key file that may be on other hosts only.
func keyPath(to *string) *setting[string] {
	s := text(to, "")
	s.files = true
	return s
}

// keyFileWanted returns the path of the key file that a flag or the environment names.
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
		Short: "Run a command as the ranks of one job, on one host or several",
		Long:  runLong,
		Example: "  bobnet run -n 4 -- ./heat\n  bobnet run --host a:2,b:2 -- ./heat\n  bobnet run -n 2 --bind -- ./cg -serial\n" +
			"  bobnet run -n 64 --hosts hosts.txt --map node --iface eth1 -- ./fft3d",
		Args: usage(wants("a command to run")),
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
			return start(cmd.Context(), cfg, engine)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // CMD's own flags are not ours
	flags.VarP(number(&ranks, 0, 1, launch.MaxRanks), "ranks", "n", "number of ranks; by default as many as the hosts take")
	flags.Var(choice(&order, launch.ByCore, string(launch.ByCore), string(launch.ByNode)), "map", "core: ranks that follow each other fill a host; node: they are on different hosts")
	flags.BoolVar(&bind, "bind", false, bindUsage)
	flags.BoolVar(&goOn, "continue", false, continueUsage+"; not with hydra")
	flags.Var(choice(&engine, "auto", "auto", "hydra", "ssh"), "engine", "what starts ranks: hydra, that is "+launch.Mpiexec+"; ssh, that is bobnet itself; or auto: hydra where it is installed and there is another host, else ssh")
	flags.Var(keyPath(&where.key), "key", keyUsage+"; all hosts have it in the same place")
	where.add(cmd)
	linkFlags(cmd, &nic)
	return cmd
}

// start runs the job by an engine.
func start(ctx context.Context, cfg *launch.Config, engine string) error {
	mpiexec, err := exec.LookPath(launch.Mpiexec)
	switch {
	case engine == "ssh" || engine == "auto" && (err != nil || cfg.Continue || !cfg.Remote() || cfg.HydraTakes() != nil):
		return cfg.Run(ctx)
	case cfg.Continue:
		return usageError{errors.New("run: --engine hydra: hydra ends all ranks when one fails, so that --continue needs --engine ssh")}
	case err != nil:
		return fmt.Errorf("run: --engine hydra: %w: Debian has it in the package mpich", err)
	}
	return cfg.Hydra(ctx, mpiexec)
}

// newBindCmd is what bobnet run --bind has started in place of each rank's command, which it
// becomes.
func newBindCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "bind CMD [ARGS...]",
		Short:              "Run a rank's command on a processor of its own for bobnet run, which has this started itself",
		Hidden:             true,
		DisableFlagParsing: true, // what follows is CMD's
		Args:               usage(wants("a command to run")),
		RunE: func(_ *cobra.Command, args []string) error {
			code, err := launch.Bind(args)
			fmt.Fprintln(os.Stderr, "bobnet:", err)
			os.Exit(code)
			return nil
		},
	}
}

// newNodeCmd is what bobnet run starts on each host.
func newNodeCmd() *cobra.Command {
	var (
		given vipl.Config
		key   string
	)
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "Run the ranks of one host for bobnet run, which starts this itself",
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

// survey prints what hosts say of themselves.
func survey(ctx context.Context, out io.Writer, where *hostFlags, nic vipl.Config, asJSON bool) error {
	cfg, err := where.config(nic)
	if err == nil {
		err = cfg.Complete()
	}
	if err != nil {
		return err
	}
	findings := cfg.Survey(ctx)
	if ctx.Err() != nil { // what was not asked is no finding
		return context.Cause(ctx)
	}
	return report(out, findings, asJSON)
}
