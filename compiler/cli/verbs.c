// Verbs: the table that parsing and --help are made from. Adding a verb or an option is one row.
#include "cli/cli.h"

static const CliOption compile_options[] = {
    {"output", 'o', false, "FILE", "the module to write"},
    {"target", 0, false, "LIST", "GPUs and cpu, as in sm_90,cpu (default: the spec's targets)"},
    {"variants", 0, false, "auto|all|LIST", "variants that the module holds (default: auto)"},
    {"plan", 0, false, "FILE", "run what this plan of `rnnc tune` names"},
    {"keep", 0, false, "DIR", "keep the generated sources and what rebuilds a kernel by hand"},
    {"dump", 0, false, "LIST", "print stages to standard output: model, plan, cuda, ptx"},
    {"jobs", 'j', false, "N", "compile N kernels at a time (default: one a core)"},
    {0},
};

static const CliOption explain_options[] = {
    {"target", 0, false, "LIST", "GPUs and cpu, as in sm_90,cpu (default: the spec's targets)"},
    {"variants", 0, false, "auto|all|LIST", "variants to choose from (default: the spec's)"},
    {"plan", 0, false, "FILE", "explain what this plan of `rnnc tune` names"},
    {0},
};

#define RUN_OPTIONS                                                                                \
    {"in", 0, true, "NAME=FILE.npy", "an input, as in x=x.npy"},                                   \
        {"lengths", 0, false, "FILE.npy", "steps of each row, [B] int32 or int64"},                \
        {"mask", 0, false, "FILE.npy", "steps to take (1) or skip (0), [B, T] bool or uint8"},     \
        {"state", 0, false, "FILE.npz", "start from these states, named <layer>/h, ..."},          \
        {"chunk", 0, false, "N", "feed N time steps a call and carry the state"},                  \
        {"device", 0, false, "cpu|cuda:N", "where to run (default: a GPU if there is one)"},       \
        {"variant", 0, false, "NAME", "run this variant in every cell layer"},                     \
    {                                                                                              \
        "seed", 0, false, "N", "seed of dropout at inference (default: 0)"                         \
    }

static const CliOption run_options[] = {
    RUN_OPTIONS,
    {"out", 0, true, "NAME=FILE.npy", "write an output or final state, as in y=y.npy"},
    {"state-out", 0, false, "FILE.npz", "write all final states"},
    {0},
};

static const CliOption verify_options[] = {
    RUN_OPTIONS,
    {"expect", 0, true, "NAME=FILE.npy", "the right values of an output or final state"},
    {"data", 0, false, "FOLDER|FILE.npz",
     "inputs and right values: ONNX' input_N.pb and output_N.pb, or members in/x, out/y"},
    {"onnx", 0, false, "FILE.onnx", "the model of --data (default: model.onnx beside the folder)"},
    {"rtol", 0, false, "R", "relative tolerance (default: 1e-5)"},
    {"atol", 0, false, "A", "absolute tolerance (default: 1e-6)"},
    {0},
};

static const CliOption generate_options[] = {
    {"prompt", 'p', true, "TEXT", "what the text begins with; several: a text for each"},
    {"prompt-file", 0, false, "FILE", "a prompt from a file"},
    {"length", 'n', false, "N", "tokens to draw (default: 500)"},
    {"vocab", 0, false, "FILE", "UTF-8 characters in token order (default: tokens are bytes)"},
    {"temperature", 0, false, "X", "logits are divided by it (default: 1)"},
    {"top-k", 0, false, "K", "draw from the K likeliest tokens"},
    {"top-p", 0, false, "P", "draw from the fewest tokens that are together P probable"},
    {"greedy", 0, false, NULL, "take the likeliest token, draw nothing"},
    {"seed", 0, false, "N", "seed of the first text, 1 more for each further (default: 0)"},
    {"streams", 0, false, "N", "texts from each prompt (default: 1)"},
    {"ban", 0, false, "TEXT", "characters that are never drawn"},
    {"stop", 0, false, "TEXT", "characters that end a text"},
    {"state", 0, false, "FILE.npz", "start from these states, named <layer>/h, ..."},
    {"state-out", 0, false, "FILE.npz", "write the states after the last token"},
    {"first-draw", 0, false, "N", "tokens that were drawn before, where a text goes on"},
    {"device", 0, false, "cpu|cuda:N", "where to run (default: a GPU if there is one)"},
    {"variant", 0, false, "NAME", "run this variant in every cell layer"},
    {0},
};

static const CliOption inspect_options[] = {
    {"json", 0, false, NULL, "print the module's descriptor as JSON"},
    {0},
};

static const CliOption bench_options[] = {
    {"device", 0, false, "cpu|cuda:N",
     "where to measure (default: a GPU if there is one, and the CPU)"},
    {"batch", 0, false, "N,N..", "batches, instead of the model's"},
    {"timesteps", 0, false, "N,N..", "numbers of time steps, instead of the model's"},
    {"variants", 0, false, "LIST|all",
     "variants, as in unrolled,cudnn:standard,cpu (default: all)"},
    {"mode", 0, false, "training", "forward and backward, whatever the spec says"},
    {"ladder", 0, false, NULL, "from the naive loop of launches up, step by step"},
    {"target", 0, false, "LIST", "compile for these (default: what is measured on)"},
    {"suite", 0, false, "NAME",
     "headline, training, cudnn5, deepbench, deepbench_training, deepbench_inference"},
    {"filter", 0, false, "TEXT", "of a suite, only cases with this in their name"},
    {"modules", 0, false, "DIR",
     "take a suite's modules from here; compile those that are missing"},
    {"compile", 0, false, NULL, "only compile a suite's modules into --modules DIR"},
    {"seconds", 0, false, "N", "begin no case of a suite after N seconds"},
    {"json", 0, false, "FILE", "write all numbers; docs/bench.md has the schema"},
    {"html", 0, false, "FILE", "write a page with charts"},
    {"trace", 0, false, "FILE", "write a Chrome trace of what ran on the GPU (needs CUPTI)"},
    {0},
};

static const CliOption tune_options[] = {
    {"output", 'o', false, "FILE", "the plan to write"},
    {"device", 0, false, "cuda:N", "where to measure (default: the first GPU)"},
    {"target", 0, false, "sm_NN", "with --compile: the GPU to compile for"},
    {"layouts", 0, false, "N", "layouts of a variant to measure, cheapest first (default: 8)"},
    {"variants", 0, false, "LIST|all", "variants to measure (default: the spec's, or all)"},
    {"modules", 0, false, "DIR", "take the candidates' modules from here, and leave them here"},
    {"compile", 0, false, NULL, "only compile the candidates' modules into --modules DIR"},
    {0},
};

static const CliOption import_options[] = {
    {"output", 'o', false, "DIR", "the folder for model.yaml and model.safetensors"},
    {"prefix", 0, false, "TEXT", "PyTorch: read only tensors whose names begin with this"},
    {"order", 0, false, "NAME,NAME..",
     "PyTorch: modules, and activations between them, from input to output"},
    {"batch-first", 0, false, "true|false", "PyTorch: whether x is [B, T, ...] or [T, B, ...]"},
    {"nonlinearity", 0, false, "tanh|relu", "PyTorch: that of RNN"},
    {"return-sequences", 0, false, "true|false",
     "PyTorch: every step's output of the last recurrent module, or only h_n (default: true)"},
    {"config", 0, false, "FILE.json",
     "PyTorch: the constructors' arguments (default: config.json beside the file)"},
    {0},
};

static const CliOption train_options[] = {
    {"data", 0, false, "FILE", "the text to train on"},
    {"output", 'o', false, "FILE.safetensors",
     "the weights, in rnnc's own names: those with the best score on held-out text so far"},
    {"vocab", 0, false, "FILE", "UTF-8 characters in token order (default: tokens are bytes)"},
    {"steps", 0, false, "N", "steps of training (default: 2000)"},
    {"batch", 0, false, "N", "rows of text side by side in a step (default: 32)"},
    {"timesteps", 0, false, "N",
     "characters of each row in a step, and so the reach of gradients (default: the spec's, or "
     "64)"},
    {"learning-rate", 0, false, "X", "after the warm-up (default: 0.002)"},
    {"warmup", 0, false, "N",
     "steps in which the rate rises (default: a tenth of the steps, at most 200)"},
    {"final-rate", 0, false, "X",
     "share of the rate at the end of its half cosine (default: 0.01)"},
    {"clip", 0, false, "X", "largest norm of the gradient; 0: any (default: 1)"},
    {"weight-decay", 0, false, "X", "decoupled, as in AdamW (default: 0)"},
    {"beta1", 0, false, "X", "of Adam's mean (default: 0.9)"},
    {"beta2", 0, false, "X", "of Adam's square (default: 0.99)"},
    {"epsilon", 0, false, "X", "of Adam (default: 1e-8)"},
    {"average", 0, false, "X",
     "write and score a running average of the weights that keeps X of itself (default: 0, none)"},
    {"held-out", 0, false, "X", "share of the text, its end, that is only scored (default: 0.1)"},
    {"evaluate-every", 0, false, "N", "steps between scores (default: 250)"},
    {"evaluate-rows", 0, false, "N", "rows that held-out text is cut into (default: the batch)"},
    {"checkpoint", 0, false, "FILE", "where to go on from (default: the output's name.checkpoint)"},
    {"checkpoint-every", 0, false, "N", "steps between checkpoints (default: as scores)"},
    {"resume", 0, false, NULL, "go on from the checkpoint, if there is one"},
    {"log", 0, false, "FILE.csv", "a line for each step: rate, gradient's norm, bits a character"},
    {"seed", 0, false, "N", "of dropout and of where passes over the text start (default: 0)"},
    {"find-nan", 0, false, NULL, "name layer, step and row of a gradient that is no number"},
    {"device", 0, false, "cpu|cuda:N", "where to train (default: cpu)"},
    {0},
};

static const CliOption no_options[] = {{0}};

const CliVerb cli_verbs[] = {
    {"", "MODEL.yaml -o MODEL.so", "compile a model",
     "  rnnc model.yaml -o model.so\n"
     "  rnnc model.onnx -o model.so\n"
     "  rnnc model.yaml -o model.so --target sm_90,cpu --variants all --keep build\n",
     compile_options, 1, 1, cli_compile},
    {"explain", "MODEL.yaml|CODE",
     "variants of each layer and why cuDNN is refused; or what a diagnostic means",
     "  rnnc explain model.yaml\n  rnnc explain E0204\n", explain_options, 1, 1, cli_explain},
    {"run", "MODEL.so", "run a module on arrays from files",
     "  rnnc run model.so --in x=x.npy --out y=y.npy\n"
     "  rnnc run model.so --in x=x.npy --out y=y.npy --device cpu --chunk 10\n"
     "  rnnc run model.so --in x=x.npy --out enc/h=h.npy --state s.npz --state-out s.npz\n"
     "  rnnc run model.so --in x=x.npy --lengths lengths.npy --out y/fw=f.npy --out y/bw=b.npy\n",
     run_options, 1, 1, cli_run},
    {"generate", "MODEL.so|MODEL.yaml", "make a text, token by token",
     "  rnnc generate model.so --vocab characters.txt --prompt 'ROMEO:' -n 1000\n"
     "  rnnc generate model.yaml --prompt 'ab' --temperature 0.7 --top-k 20 --seed 7\n"
     "  rnnc generate model.so --prompt 'ab' --state-out s.npz\n"
     "  rnnc generate model.so --state s.npz --first-draw 500 --streams 4\n",
     generate_options, 1, 1, cli_generate},
    {"verify", "MODEL.so", "compare a module's outputs with expected values, or run its self-test",
     "  rnnc verify model.so\n"
     "  rnnc verify model.so --in x=x.npy --expect y=y.npy --rtol 1e-4 --atol 1e-6\n"
     "  rnnc verify model.so --data test_data_set_0\n",
     verify_options, 1, 1, cli_verify},
    {"inspect", "MODEL.so", "print what a module holds, without loading it",
     "  rnnc inspect model.so\n  rnnc inspect model.so --json\n", inspect_options, 1, 1,
     cli_inspect},
    {"bench", "MODEL.yaml|MODEL.so|RESULTS.json", "measure variants side by side",
     "  rnnc bench model.yaml\n"
     "  rnnc bench model.yaml --batch 1,64 --timesteps 100 --json results.json\n"
     "  rnnc bench model.so --device cuda:0 --variants unrolled,cudnn:persist_static\n"
     "  rnnc bench --ladder specs/cudnn5_ladder.yaml\n"
     "  rnnc bench --suite headline --json headline.json\n"
     "  rnnc bench --suite training --json training.json\n"
     "  rnnc bench --suite deepbench --modules DIR --compile --target sm_90\n"
     "  rnnc bench results.json --html results.html\n",
     bench_options, 0, 1, cli_bench},
    {"tune", "MODEL.yaml", "measure variants and layouts of each layer and write a plan",
     "  rnnc tune model.yaml -o model.plan\n"
     "  rnnc model.yaml --plan model.plan -o model.so\n",
     tune_options, 1, 1, cli_tune},
    {"train", "MODEL.yaml", "train a character model on a text",
     "  rnnc train model.yaml --data text.txt --vocab characters.txt -o weights.safetensors\n"
     "  rnnc train model.yaml --data text.txt -o weights.safetensors --steps 5000 --resume\n"
     "  rnnc train model.yaml --data text.txt -o weights.safetensors --log curve.csv --seed 7\n",
     train_options, 1, 1, cli_train},
    {"import", "FILE", "turn another framework's model into a spec and its weights",
     "  rnnc import model.onnx -o DIR\n"
     "  rnnc import model.keras -o DIR\n"
     "  rnnc import model.safetensors -o DIR\n"
     "  rnnc import model.safetensors -o DIR --prefix encoder. --batch-first false\n"
     "  rnnc import model.safetensors -o DIR --order emb,rnn,fc1,relu,fc2 --nonlinearity tanh\n",
     import_options, 1, 1, cli_import},
    {"cells", "", "list the built-in cells", "  rnnc cells\n", no_options, 0, 0, cli_cells},
    {"activations", "", "list the activations", "  rnnc activations\n", no_options, 0, 0,
     cli_activations},
    {0},
};
