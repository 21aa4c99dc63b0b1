// explain MODEL: plans a spec for its targets, without weights and without a GPU, and prints the
// table of variants with every reason why one is refused.
#include "build/targets.h"
#include "cli/cli.h"
#include "plan/plan_file.h"

int cli_explain_model(CliCall *call)
{
    const Spec *spec = spec_read(call->arena, call->diags, call->operands[0]);
    if (!spec)
        return cli_result(call);
    Targets targets;
    if (!targets_parse(call->arena, call->diags, spec, cli_value(call, "target"), &targets))
        return cli_result(call);
    const Model *model = model_build_shapes(call->arena, call->diags, spec);
    if (!model)
        return cli_result(call);
    const PlanFile *file = NULL;
    if (!cli_plan(call, &file))
        return call->usage_fault ? EXIT_USAGE : cli_result(call);
    const Plan *plan =
        file ? plan_make_from_file(call->arena, call->diags, model, targets.arches,
                                   targets.arch_count, targets.cpu, file)
             : plan_make(call->arena, call->diags, model, targets.arches, targets.arch_count,
                         targets.cpu, cli_value(call, "variants"));
    if (!plan)
        return cli_result(call);
    Text table = {.arena = call->arena};
    plan_explain(call->arena, plan, &table, call->colour_out);
    fputs(text_string(&table), stdout);
    return cli_result(call);
}
